// Events on their way from a run's process to the server: lines in files of a few megabytes, appended by the one, read by
// the other at a cursor, and removed once they are stored.

import { appendFileSync, mkdirSync, readdirSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { RunEvent } from '../../../workers/protocol.ts'
import { readAt, sizeOf } from '../../store/events/appendOnly.ts'

const SEGMENT_BYTES = 8 * 1024 * 1024
const READ_BYTES = 1024 * 1024
const WRITE_EVERY_MS = 50
const PROGRESS_EVERY_MS = 500

/** In the run's process. What it was handed is on the disk after `flush`. */
export class SpoolWriter {
  #folder: string
  #segment: number
  #bytes = 0
  #pending: string[] = []
  #timer: NodeJS.Timeout | null = null
  #lastProgress = 0

  /** `redact` sees every event as the JSON that is written. */
  constructor(
    folder: string,
    private readonly redact: (text: string) => string = (text) => text,
  ) {
    this.#folder = folder
    mkdirSync(folder, { recursive: true })
    this.#segment = Math.max(0, ...readdirSync(folder).map((name) => Number.parseInt(name, 10) || 0)) + 1
  }

  add(event: RunEvent): void {
    if (event.kind === 'progress') {
      const now = performance.now()
      if (now - this.#lastProgress < PROGRESS_EVERY_MS && event.done < event.total) return
      this.#lastProgress = now
    }
    this.#pending.push(`${this.redact(JSON.stringify(event))}\n`)
    this.#timer ??= setTimeout(() => this.flush(), WRITE_EVERY_MS)
  }

  /** Synchronous, so that nothing can happen between the last event and the end of the process. */
  flush(): void {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
    if (this.#pending.length === 0) return
    const text = this.#pending.join('')
    if (this.#bytes > SEGMENT_BYTES) {
      this.#segment++
      this.#bytes = 0
    }
    appendFileSync(join(this.#folder, segmentName(this.#segment)), text, { mode: 0o600 })
    this.#bytes += Buffer.byteLength(text)
    this.#pending = []
  }
}

/** A place in a spool: a segment, a byte in it, and the run's own counter of the last event before it. */
export interface SpoolPlace {
  segment: number
  offset: number
  seq: number
}

/**
 * Whole lines after a place, about a megabyte at a time. What follows the last line end is not there yet. Segments before
 * the place are removed: they are stored.
 */
export async function readSpool(folder: string, from: SpoolPlace): Promise<{ events: RunEvent[]; place: SpoolPlace }> {
  const names = await readdir(folder).catch(() => [])
  const segments = names.map((name) => Number.parseInt(name, 10)).sort((a, b) => a - b)
  for (const segment of segments)
    if (segment < from.segment) await rm(join(folder, segmentName(segment)), { force: true })
  const events: RunEvent[] = []
  const place = { ...from }
  for (const segment of segments) {
    if (segment < from.segment) continue
    if (segment > place.segment) Object.assign(place, { segment, offset: 0 })
    const path = join(folder, segmentName(segment))
    const left = (await sizeOf(path)) - place.offset
    if (left <= 0) continue
    let bytes = await readAt(path, place.offset, Math.min(left, READ_BYTES))
    if (!bytes.includes(10) && left > bytes.length) bytes = await readAt(path, place.offset, left)
    const whole = bytes.subarray(0, bytes.lastIndexOf(10) + 1)
    for (const line of whole.toString('utf8').split('\n')) if (line !== '') events.push(JSON.parse(line) as RunEvent)
    place.offset += whole.length
    break
  }
  place.seq = events.at(-1)?.seq ?? place.seq
  return { events, place }
}

function segmentName(segment: number): string {
  return `${String(segment).padStart(6, '0')}.jsonl`
}
