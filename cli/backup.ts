// `rollout-lab backup FOLDER`: a copy of all that a server keeps, also while it runs.

import { Command } from 'commander'
import { storeOf, withStore } from './storeOptions.ts'
import { type Context, Refusal } from './verb.ts'

export function command(context: Context): Command {
  return withStore(new Command('backup'))
    .argument('<folder>', 'a folder that is not there yet')
    .action(async (folder: string, options) => {
      const { backUp } = await import('../server/store/backup.ts')
      const { rows } = await backUp(storeOf(context, options), folder).catch((error: Error) => {
        throw new Refusal(`Nothing was copied. ${error.message}`)
      })
      process.stdout.write(
        `${folder} holds ${rows.run} runs. The key of the secret sets is not in it: keep that elsewhere.\n`,
      )
    })
}
