// Reads what a request's body says without changing a byte of it: where each top-level field stands, how deep it is, and
// what it asks for. A model's other name is replaced in the raw text, so numbers of any size and unknown fields survive.

import { Refusal } from './refusal.ts'

export interface Field {
  /** Where the value stands in the bytes. */
  start: number
  end: number
}

export interface Body {
  bytes: Buffer
  value: Record<string, unknown>
  fields: Map<string, Field>
  model: string
  stream: boolean
}

const LONGEST_MODEL_NAME = 256

/** Throws a Refusal unless the bytes are one JSON object with a model and no field twice. */
export function readBody(bytes: Buffer, { depth }: { depth: number }): Body {
  const scanned = scan(bytes)
  if (scanned.depth > depth)
    throw new Refusal(400, 'too_deep', `The body is nested ${scanned.depth} deep, and ${depth} is the limit.`)
  let value: unknown
  try {
    value = JSON.parse(bytes.toString('utf8'))
  } catch (error) {
    throw new Refusal(400, 'invalid_json', `The body is not JSON: ${(error as Error).message}.`)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Refusal(400, 'invalid_json', 'The body has to be a JSON object.')
  if (scanned.twice !== null)
    throw new Refusal(400, 'duplicate_field', `The body gives ${scanned.twice} twice.`, { param: scanned.twice })
  const object = value as Record<string, unknown>
  const { model } = object
  if (typeof model !== 'string' || model.length === 0 || model.length > LONGEST_MODEL_NAME)
    throw new Refusal(400, 'invalid_model', 'The body has to name its model: GET /v1/models lists them.', {
      param: 'model',
    })
  return { bytes, value: object, fields: scanned.fields, model, stream: object.stream === true }
}

/** The body with another model, all else byte for byte. */
export function withModel({ bytes, fields }: Body, model: string): Buffer {
  const { start, end } = fields.get('model')!
  return Buffer.concat([bytes.subarray(0, start), Buffer.from(JSON.stringify(model)), bytes.subarray(end)])
}

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN = new Set([0x7b, 0x5b])
const CLOSE = new Set([0x7d, 0x5d])

/** Finds the top-level fields of an object. Text that is no JSON gives some answer; the parser refuses it. */
function scan(bytes: Buffer): { depth: number; fields: Map<string, Field>; twice: string | null } {
  const fields = new Map<string, Field>()
  let twice: string | null = null
  let depth = 0
  let deepest = 0
  let name: string | null = null
  let start = -1
  const finish = (end: number) => {
    if (name === null || start < 0) return
    while (end > start && bytes[end - 1] <= 0x20) end--
    if (fields.has(name)) twice ??= name
    fields.set(name, { start, end })
    name = null
    start = -1
  }
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]
    if (byte <= 0x20) continue
    if (depth === 1 && name !== null && start < 0 && byte !== COLON) start = i
    if (byte === QUOTE) {
      const end = endOfString(bytes, i)
      if (depth === 1 && name === null) name = decode(bytes, i, end)
      i = end - 1
    } else if (OPEN.has(byte)) {
      depth++
      if (depth > deepest) deepest = depth
    } else if (CLOSE.has(byte)) {
      if (depth === 1) finish(i)
      depth--
    } else if (byte === COMMA && depth === 1) finish(i)
  }
  return { depth: deepest, fields, twice }
}

/** The position after the closing quote. */
function endOfString(bytes: Buffer, start: number): number {
  for (let i = start + 1; ; i++) {
    i = bytes.indexOf(QUOTE, i)
    if (i < 0) return bytes.length
    let backslashes = 0
    while (bytes[i - 1 - backslashes] === BACKSLASH) backslashes++
    if (backslashes % 2 === 0) return i + 1
  }
}

/** A key as the parser will read it: an escaped letter is the same letter. */
function decode(bytes: Buffer, start: number, end: number): string {
  const text = bytes.toString('utf8', start, end)
  if (!text.includes('\\')) return text.slice(1, -1)
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
