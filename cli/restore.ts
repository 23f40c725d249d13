// `rollout-lab restore FOLDER`: a data folder as it was when the backup was made.

import { Command } from 'commander'
import { storeOf, withStore } from './storeOptions.ts'
import { type Context, Refusal } from './verb.ts'

export function command(context: Context): Command {
  return withStore(new Command('restore'))
    .argument('<folder>', 'a backup')
    .action(async (folder: string, options) => {
      const { restore } = await import('../server/store/backup.ts')
      const store = storeOf(context, options)
      const { rows, createdAt } = await restore(folder, store).catch((error: Error) => {
        throw new Refusal(`Nothing was restored. ${error.message}`)
      })
      const when = new Date(createdAt).toISOString()
      process.stdout.write(
        `${store.folder} holds the ${rows.run} runs of ${when}. Runs that were under way then go on from their last save.\n`,
      )
    })
}
