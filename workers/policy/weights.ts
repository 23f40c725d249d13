// The safetensors format (https://github.com/huggingface/safetensors), read by byte range and written whole: an 8-byte
// little-endian header length, a JSON header {name: {dtype, shape, data_offsets}}, then the bytes. Knows no model.

/** The files of a model folder. */
export interface Read {
  /** Bytes [start, end) of a file; the whole file without a range. Rejects with a sentence. */
  (path: string, range?: { start: number; end: number }): Promise<Uint8Array>
  /** SHA-256 of a file, hexadecimal, where the source knows it; else its bytes are read for it. */
  digest?(path: string): Promise<string | null>
}

/** The folder has no such file, as opposed to one that did not come. */
export class MissingFile extends Error {
  override name = 'MissingFile'
}

export interface TensorEntry {
  name: string
  dtype: string
  shape: number[]
  path: string
  start: number
  end: number
}

/** What weights may be stored as, and the bytes of one number. */
const DTYPE_BYTES = { F32: 4, F16: 2, BF16: 2 } as const
export type Dtype = keyof typeof DTYPE_BYTES

/** The tensors of `model.safetensors`, or of the shards that `model.safetensors.index.json` names. */
export async function listTensors(read: Read, files: { sharded: boolean }): Promise<Map<string, TensorEntry>> {
  const paths = files.sharded ? await shardPaths(read) : ['model.safetensors']
  const entries = new Map<string, TensorEntry>()
  for (const path of paths) for (const entry of await readHeader(read, path)) entries.set(entry.name, entry)
  return entries
}

async function shardPaths(read: Read): Promise<string[]> {
  const index = JSON.parse(new TextDecoder().decode(await read('model.safetensors.index.json'))) as {
    weight_map: Record<string, string>
  }
  return [...new Set(Object.values(index.weight_map))].sort()
}

async function readHeader(read: Read, path: string): Promise<TensorEntry[]> {
  const prefix = await read(path, { start: 0, end: 8 })
  if (prefix.length < 8)
    throw new Error(`Read ${path}: expected a safetensors header, got a file of ${prefix.length} bytes.`)
  const length = Number(new DataView(prefix.buffer, prefix.byteOffset).getBigUint64(0, true))
  if (length > 100_000_000) throw new Error(`Read ${path}: it does not begin with a safetensors header.`)
  const bytes = await read(path, { start: 8, end: 8 + length })
  let header: Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }>
  try {
    header = JSON.parse(new TextDecoder().decode(bytes))
  } catch {
    throw new Error(
      `Read ${path}: its safetensors header of ${length} bytes is cut off or broken; download the file again.`,
    )
  }
  return Object.entries(header)
    .filter(([name]) => name !== '__metadata__')
    .map(
      ([
        name,
        {
          dtype,
          shape,
          data_offsets: [start, end],
        },
      ]) => ({ name, dtype, shape, path, start: 8 + length + start, end: 8 + length + end }),
    )
}

/**
 * Rows [from, to) of a matrix, or elements [from, to) of a vector, as the file stores them: little-endian, `entry.dtype`.
 * @throws a sentence when the range is outside the tensor or the file is cut off
 */
export async function readRawRows(read: Read, entry: TensorEntry, from: number, to: number): Promise<Uint8Array> {
  const rows = entry.shape[0] ?? 1
  if (!(from >= 0 && from <= to && to <= rows)) {
    throw new Error(`Read ${entry.path}: rows ${from} to ${to} of ${entry.name} were asked for; it has ${rows}.`)
  }
  const rowBytes = (entry.end - entry.start) / rows
  const bytes = await read(entry.path, { start: entry.start + from * rowBytes, end: entry.start + to * rowBytes })
  if (bytes.length !== (to - from) * rowBytes) {
    throw new Error(
      `Read ${entry.path}: the tensor ${entry.name} needs ${(to - from) * rowBytes} bytes, ${bytes.length} came: the file is cut off; download it again.`,
    )
  }
  return bytes
}

/**
 * One tensor as f32, whatever it is stored as.
 * @throws a sentence when it is missing, has another shape, an unknown dtype, or is cut off
 */
export async function readTensor(
  read: Read,
  entries: Map<string, TensorEntry>,
  name: string,
  shape: number[],
): Promise<Float32Array> {
  const entry = findTensor(entries, name, shape)
  return toFloat32(await readRawRows(read, entry, 0, shape[0] ?? 1), entry.dtype)
}

/** @throws a sentence when it is missing, has another shape, an unknown dtype, or a length that its shape does not have */
export function findTensor(
  entries: Map<string, TensorEntry>,
  name: string,
  shape: number[],
): TensorEntry & { dtype: Dtype } {
  const entry = entries.get(name)
  if (!entry)
    throw new Error(`Read the model: the tensor ${name} is missing; its config.json asks for it with shape [${shape}].`)
  if (entry.shape.join() !== shape.join()) {
    throw new Error(
      `Read ${entry.path}: the tensor ${name} has shape [${entry.shape}], config.json asks for [${shape}].`,
    )
  }
  if (!isDtype(entry.dtype))
    throw new Error(`Read ${entry.path}: the tensor ${name} is ${entry.dtype}; this lab reads F32, F16 and BF16.`)
  const expected = shape.reduce((product, n) => product * n, 1) * DTYPE_BYTES[entry.dtype]
  if (entry.end - entry.start !== expected) {
    throw new Error(
      `Read ${entry.path}: the tensor ${name} needs ${expected} bytes, its header gives it ${entry.end - entry.start}; download the file again.`,
    )
  }
  return entry as TensorEntry & { dtype: Dtype }
}

function isDtype(dtype: string): dtype is Dtype {
  return dtype in DTYPE_BYTES
}

/** Little-endian bytes of `dtype` → f32. */
export function toFloat32(bytes: Uint8Array, dtype: Dtype): Float32Array {
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice()
  if (dtype === 'F32') return new Float32Array(aligned.buffer, aligned.byteOffset, bytes.length / 4).slice()
  const words = new Uint16Array(aligned.buffer, aligned.byteOffset, bytes.length / 2)
  const result = new Float32Array(words.length)
  if (dtype === 'BF16') {
    const bits = new Uint32Array(result.buffer)
    for (let i = 0; i < words.length; i++) bits[i] = words[i] << 16
  } else {
    halves ??= Float32Array.from({ length: 0x10000 }, (_, word) => halfToFloat(word))
    for (let i = 0; i < words.length; i++) result[i] = halves[words[i]]
  }
  return result
}

/** The number of every half. */
let halves: Float32Array | null = null

/** IEEE 754 binary16 → number. */
export function halfToFloat(word: number): number {
  const sign = word & 0x8000 ? -1 : 1
  const exponent = (word >> 10) & 0x1f
  const fraction = word & 0x3ff
  if (exponent === 0) return sign * fraction * 2 ** -24
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15)
}

const scratch = new DataView(new ArrayBuffer(4))

/** Number → IEEE 754 binary16, to nearest, ties to even. */
export function floatToHalf(value: number): number {
  scratch.setFloat32(0, value)
  const bits = scratch.getUint32(0)
  const sign = (bits >>> 16) & 0x8000
  const exponent = ((bits >>> 23) & 0xff) - 127
  let fraction = bits & 0x7fffff
  if (exponent === 128) return sign | 0x7c00 | (fraction ? 0x200 : 0)
  if (exponent > 15) return sign | 0x7c00
  if (exponent >= -14) {
    const rounded = ((exponent + 15) << 10) + roundShift(fraction, 13)
    return sign | rounded
  }
  fraction |= 0x800000
  const shift = 13 + (-14 - exponent)
  return shift > 24 ? sign : sign | roundShift(fraction, shift)
}

// Shifts right, rounding to nearest and ties to even.
function roundShift(value: number, shift: number): number {
  const kept = Math.floor(value / 2 ** shift)
  const rest = value - kept * 2 ** shift
  const half = 2 ** (shift - 1)
  return rest > half || (rest === half && kept % 2 === 1) ? kept + 1 : kept
}

/** A whole safetensors file. */
export function writeSafetensors(
  tensors: { name: string; shape: number[]; data: Float32Array }[],
  dtype: 'F32' | 'F16',
  metadata: Record<string, string> = { format: 'pt' },
): Uint8Array {
  const header: Record<string, unknown> = { __metadata__: metadata }
  let offset = 0
  for (const { name, shape, data } of tensors) {
    const end = offset + data.length * DTYPE_BYTES[dtype]
    header[name] = { dtype, shape, data_offsets: [offset, end] }
    offset = end
  }
  let json = JSON.stringify(header)
  // The data begins on an 8-byte boundary; spaces are allowed at the header's end.
  json += ' '.repeat((8 - (new TextEncoder().encode(json).length % 8)) % 8)
  const head = new TextEncoder().encode(json)
  const file = new Uint8Array(8 + head.length + offset)
  new DataView(file.buffer).setBigUint64(0, BigInt(head.length), true)
  file.set(head, 8)
  let at = 8 + head.length
  for (const { data } of tensors) {
    if (dtype === 'F32') new Float32Array(file.buffer, at, data.length).set(data)
    else {
      const words = new Uint16Array(file.buffer, at, data.length)
      for (let i = 0; i < data.length; i++) words[i] = floatToHalf(data[i])
    }
    at += data.length * DTYPE_BYTES[dtype]
  }
  return file
}
