// One writer for a run folder: a file with the writer's process id and the time that process began, which is worth
// nothing once the process is gone. In a container a new process may well have the id of the one before it.

import { readFile, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'

/** Throws a sentence when another process writes the run. */
export async function takeLock(folder: string): Promise<void> {
  const path = join(folder, 'writer.lock')
  for (;;) {
    try {
      await writeFile(path, `${process.pid} ${beganAt()}`, { flag: 'wx' })
      return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    const holder = await lockHolder(folder)
    if (holder !== null) {
      throw new Error(
        `Run ${basename(folder)} is being written by process ${holder}. Stop that one first, or choose another folder; ` +
          `if that is another program, remove ${path}.`,
      )
    }
    // Its process is gone: it was killed before it could let go.
    await rm(path, { force: true })
  }
}

/** The process that writes a run; null when nobody does, or when whoever did is gone. */
export async function lockHolder(folder: string): Promise<number | null> {
  const text = await readFile(join(folder, 'writer.lock'), 'utf8').catch(() => '')
  const [holder, began] = text.split(' ').map(Number)
  if (!holder || !isAlive(holder)) return null
  return holder === process.pid && Math.abs(began - beganAt()) > 2 ? null : holder
}

/** Seconds since the epoch, the same in every thread of a process. */
function beganAt(): number {
  return Math.round(Date.now() / 1000 - process.uptime())
}

/** Frees a run whose writer was a thread of this process and has ended without letting go. */
export async function releaseRun(folder: string): Promise<void> {
  if ((await lockHolder(folder)) === process.pid) await rm(join(folder, 'writer.lock'), { force: true })
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
