// Logs of a job as byte offsets that stay true: prime-rl begins a new folder of logs whenever it is started again, and its
// `logs/latest` moves on; here the files of one stream follow each other as if they were one.

import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { readAt, sizeOf } from '../../store/events/appendOnly.ts'
import type { RunLayout } from './layout.ts'

export const COMPONENTS = ['trainer', 'orchestrator', 'inference'] as const

export const STREAMS: string[] = ['job', ...COMPONENTS]

/** The files of a stream in order, of the attempt whose logs begin after `logsFrom` of prime-rl's own attempts. */
export async function filesOf(layout: RunLayout, attempt: number, logsFrom: number, stream: string): Promise<string[]> {
  if (stream === 'job') {
    const folder = layout.attempt(attempt)
    const names = await readdir(folder).catch(() => [] as string[])
    return names
      .filter((name) => /^job_\w+\.log$/.test(name))
      .sort((a, b) => a.length - b.length || (a < b ? -1 : 1))
      .map((name) => join(folder, name))
  }
  if (!COMPONENTS.includes(stream as 'trainer')) return []
  const folders = (await layout.logFolders()).slice(logsFrom)
  return folders.map((folder) => join(folder, `${stream}.log`))
}

/** Bytes from `offset` on, across the files, at most `most`. */
export async function readAcross(
  files: string[],
  offset: number,
  most: number,
): Promise<{ bytes: Buffer; size: number }> {
  const sizes = await Promise.all(files.map(sizeOf))
  const parts: Buffer[] = []
  let begin = 0
  let at = offset
  let left = most
  for (const [i, file] of files.entries()) {
    const end = begin + sizes[i]
    if (at < end && left > 0) {
      const part = await readAt(file, at - begin, Math.min(left, end - at))
      parts.push(part)
      at += part.length
      left -= part.length
      // A file that gave less than it had is read again before the next one.
      if (at < end) break
    }
    begin = end
  }
  return { bytes: Buffer.concat(parts), size: sizes.reduce((sum, size) => sum + size, 0) }
}

/** A component has died though the job goes on, so that checkpoints can be written: prime-rl's own words for it. */
const EXIT_LINE = /^.*\b([\w-]+) exited with code ([1-9]\d*)\b.*$/m

export interface ExitSaid {
  component: string
  code: number
  line: string
}

export function exitSaid(text: string): ExitSaid | null {
  const match = EXIT_LINE.exec(text)
  return match && { component: match[1], code: Number(match[2]), line: match[0].trim() }
}
