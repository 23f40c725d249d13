// One save as one run of bytes, the same in a tab and in Node: a header in JSON, the arrays, a checksum over both.
// Knows nothing of files, of databases or of what the numbers mean.
//
//   bytes 0–7   "RLABSAVE"            bytes 12–15  length of the header in bytes
//   bytes 8–11  CRC-32 of the rest    bytes 16 …   header, padded with spaces to a multiple of 8, then the arrays
//
// Every number is little-endian.

import type { RunConfig } from '../../configs/schema.ts'

/** Everything that a run needs to go on as if it had never stopped. */
export interface SaveRecord {
  header: SaveHeader
  /**
   * All trainable numbers and the optimizer's moments, each flat; `answering` are those of the policy that answers the
   * next batch, where steps are asynchronous.
   */
  arrays: {
    trainable: Float32Array
    firstMoment: Float32Array
    secondMoment: Float32Array
    answering?: Float32Array
  }
}

export interface SaveHeader {
  run: string
  attempt: number
  /** Steps done. */
  step: number
  /** The last step whose held-out evaluation is done; −1 before the first. */
  evaluated: number
  /** The run's event counter when the save was made: whatever has a higher one is cut on resume. */
  seq: number
  /** Milliseconds since the epoch. */
  savedAt: number
  config: RunConfig
  model: { name: string; hash: string }
  device: { backend: string; adapter: string }
  optimizerSteps: number
  version: number
  /** Of `answering`. */
  answeringVersion?: number
  /** Task cursor, difficulty pools, counters: plain JSON that only the step understands. */
  progress: unknown
  /** What the start-up trial chose (kernels, token budget, slots), reused on resume. */
  choices: Record<string, unknown>
}

const MAGIC = 'RLABSAVE'
const PREFIX_BYTES = 16
const ARRAYS = ['trainable', 'firstMoment', 'secondMoment', 'answering'] as const

export function encodeSave({ header, arrays }: SaveRecord): Uint8Array<ArrayBuffer> {
  const lengths = Object.fromEntries(ARRAYS.map((name) => [name, arrays[name]?.length]))
  const json = new TextEncoder().encode(JSON.stringify({ format: 1, lengths, header }))
  const headerBytes = Math.ceil(json.length / 8) * 8
  const total = PREFIX_BYTES + headerBytes + ARRAYS.reduce((sum, name) => sum + (arrays[name]?.length ?? 0) * 4, 0)

  const bytes = new Uint8Array(total)
  bytes.fill(0x20, PREFIX_BYTES, PREFIX_BYTES + headerBytes)
  bytes.set(json, PREFIX_BYTES)
  let offset = PREFIX_BYTES + headerBytes
  for (const name of ARRAYS) {
    const array = arrays[name]
    if (!array) continue
    new Float32Array(bytes.buffer, offset, array.length).set(array)
    offset += array.length * 4
  }
  const view = new DataView(bytes.buffer)
  for (let i = 0; i < MAGIC.length; i++) bytes[i] = MAGIC.charCodeAt(i)
  view.setUint32(12, headerBytes, true)
  view.setUint32(8, crc32(bytes.subarray(12)), true)
  return bytes
}

/** Throws a sentence when the bytes are not a whole save: too short, torn, or of another program. */
export function decodeSave(bytes: Uint8Array): SaveRecord {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (bytes.length < PREFIX_BYTES || MAGIC !== String.fromCharCode(...bytes.subarray(0, MAGIC.length))) {
    throw new Error(`Read ${bytes.length} bytes that do not begin as a save does.`)
  }
  const [expected, got] = [view.getUint32(8, true), crc32(bytes.subarray(12))]
  if (expected !== got) {
    throw new Error(`The save is torn: its checksum is ${hex(got)}, and ${hex(expected)} was written.`)
  }
  const headerBytes = view.getUint32(12, true)
  const json = new TextDecoder().decode(bytes.subarray(PREFIX_BYTES, PREFIX_BYTES + headerBytes))
  const { format, lengths, header } = JSON.parse(json) as {
    format: number
    lengths: Record<keyof SaveRecord['arrays'], number> & { answering?: number }
    header: SaveHeader
  }
  if (format !== 1) throw new Error(`The save has format ${format}; this program reads format 1.`)

  // A copy, because the bytes handed in need not be aligned to four.
  const body = new Uint8Array(bytes.subarray(PREFIX_BYTES + headerBytes)).buffer
  let offset = 0
  const read = (length: number) => {
    const array = new Float32Array(body, offset, length)
    offset += length * 4
    return array
  }
  const arrays: SaveRecord['arrays'] = {
    trainable: read(lengths.trainable),
    firstMoment: read(lengths.firstMoment),
    secondMoment: read(lengths.secondMoment),
  }
  if (lengths.answering !== undefined) arrays.answering = read(lengths.answering)
  return { header, arrays }
}

/** What a byte becomes when 0, 1, 2 or 3 bytes follow it, 256 numbers each: four bytes are taken at a time. */
const TABLE = new Uint32Array(4 * 256)
for (let byte = 0; byte < 256; byte++) {
  let value = byte
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1
  TABLE[byte] = value
}
for (let i = 256; i < TABLE.length; i++) TABLE[i] = TABLE[TABLE[i - 256] & 0xff] ^ (TABLE[i - 256] >>> 8)

/** CRC-32 (IEEE 802.3, as in zip and PNG), unsigned. */
export function crc32(bytes: Uint8Array): number {
  let value = 0xffffffff
  let i = 0
  for (; i + 4 <= bytes.length; i += 4) {
    value ^= bytes[i] | (bytes[i + 1] << 8) | (bytes[i + 2] << 16) | (bytes[i + 3] << 24)
    value =
      TABLE[768 + (value & 0xff)] ^
      TABLE[512 + ((value >>> 8) & 0xff)] ^
      TABLE[256 + ((value >>> 16) & 0xff)] ^
      TABLE[value >>> 24]
  }
  for (; i < bytes.length; i++) value = TABLE[(value ^ bytes[i]) & 0xff] ^ (value >>> 8)
  return (value ^ 0xffffffff) >>> 0
}

function hex(value: number): string {
  return value.toString(16).padStart(8, '0')
}
