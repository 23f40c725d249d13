// Processes of this machine by their ids: whether one is still the same, how much memory it holds, how it is ended.

import { readFile } from 'node:fs/promises'

/** When a process began, in the system's ticks; null where the system does not say (not on Linux). */
export async function beganAt(pid: number): Promise<string | null> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null)
  // The second field is the program's name in parentheses and may hold anything; the twenty-second is the start.
  return text?.slice(text.lastIndexOf(')') + 2).split(' ')[19] ?? null
}

/** A zombie counts as gone. */
export async function isRunning({ pid, began }: { pid: number; began: string | null }): Promise<boolean> {
  try {
    process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
  if (began === null) return true
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null)
  if (text === null) return false
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return fields[19] === began && fields[0] !== 'Z'
}

/** Bytes of memory that a process holds; null where the system does not say. */
export async function memoryOf(pid: number): Promise<number | null> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  const match = /^VmRSS:\s*(\d+) kB$/m.exec(text)
  return match ? Number(match[1]) * 1024 : null
}

/** Sends a signal to a process and all that it has started. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  for (const target of process.platform === 'win32' ? [pid] : [-pid, pid]) {
    try {
      process.kill(target, signal)
      return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
}
