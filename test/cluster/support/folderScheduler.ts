// A batch system whose jobs are folders: what it is handed, another process fills (folderWriter.mjs). The engine, its
// files and all that follows them are those of a real one.

import { rename, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Launch, Scheduler, Sighting } from '../../../server/engines/primeRl/scheduler.ts'

export class FolderScheduler implements Scheduler {
  readonly target = 'folders'
  readonly title = 'Folders'
  readonly multiNode = false
  readonly tables = []

  async launch({ environment, folder }: Launch, record: (id: string) => Promise<void>): Promise<void> {
    const run = dirname(folder)
    await record(run)
    const launched = { folder, output: environment.ROLLOUT_LAB_OUTPUT, config: environment.ROLLOUT_LAB_CONFIG }
    await writeFile(join(run, 'launched.partial'), JSON.stringify(launched))
    await rename(join(run, 'launched.partial'), join(run, 'launched.json'))
  }

  async look(run: string, begun: boolean): Promise<Sighting> {
    const ended = await stat(join(run, 'ended')).catch(() => null)
    return {
      ...{ state: ended ? 'succeeded' : begun ? 'running' : 'queued', reason: null, exitCode: ended ? 0 : null },
      ...{ nodes: [], startedAt: null, endedAt: ended?.mtimeMs ?? null, queuePosition: null, restarts: 0, raw: null },
    }
  }

  cancel = async () => {}
  problem = async () => null
  close = async () => {}
}
