// Opens a model folder in Hugging Face layout through `read`: card, tokenizer, chat template, and where the weights lie.
// Which thread, file or network the bytes come from is the host's business.

import { type Card, parameterCount, readCard, weightShapes } from './card.ts'
import { type ChatTemplate, createChatTemplate } from './chatTemplate.ts'
import { createTokenizer, type Tokenizer } from './tokenizer.ts'
import {
  type Dtype,
  findTensor,
  listTensors,
  MissingFile,
  type Read,
  readRawRows,
  type TensorEntry,
  toFloat32,
} from './weights.ts'

export interface Model {
  name: string
  card: Card
  parameters: number
  tokenizer: Tokenizer
  template: ChatTemplate
  /** The first is what the chat template ends a turn with, where it does. */
  stopTokens: number[]
  /** SHA-256 over config, tokenizer and every weight byte, hexadecimal. */
  hash: string
  /** One weight by its Hugging Face name, as f32. */
  weight(name: string): Promise<Float32Array>
  /** [out, in] of a matrix, [length] of a vector. */
  shapeOf(name: string): number[]
  /** What the checkpoint stores it as. */
  dtypeOf(name: string): Dtype
  /** Rows [from, to) of a matrix, or elements [from, to) of a vector, as f32; no other byte is read. */
  rows(name: string, from: number, to: number): Promise<Float32Array>
  /** The same as the checkpoint stores them: little-endian, `dtypeOf(name)`. */
  rawRows(name: string, from: number, to: number): Promise<Uint8Array>
}

export interface OpenOptions {
  /** False opens an architecture without weights, to be trained from nothing. */
  weights?: boolean
  /** Told before a weight is read; what it throws is the end of it. */
  onCard?: (card: Card) => void
}

/** What a trainer or a server tells of the model that it opened. */
export function describeModel(
  { name, card, hash }: Model,
  { parameters, trainableParameters }: { parameters: number; trainableParameters: number },
) {
  const { layers, width, vocabulary } = card
  return { name, parameters, trainableParameters, layers, width, vocabulary, hash }
}

/** A weight file up to here is read once and kept in memory; a larger one is read in the parts that are asked for. */
const KEPT_WHOLE_BYTES = 64 * 2 ** 20

interface TokenizerConfig {
  chat_template?: string | { name: string; template: string }[]
  eos_token?: string | { content: string }
  bos_token?: string | { content: string } | null
}

/** @throws a sentence naming the file and what is wrong with it */
export async function openModel(read: Read, name: string, options: OpenOptions = {}): Promise<Model> {
  const config = await readJson<Record<string, unknown>>(read, 'config.json')
  const generation = await readJson<Record<string, unknown>>(read, 'generation_config.json', {})
  const card = readCard(config, generation)
  options.onCard?.(card)
  const tokenizerJson = await readJson<object>(read, 'tokenizer.json')
  const tokenizerConfig = await readJson<TokenizerConfig>(read, 'tokenizer_config.json', {})
  const tokenizer = createTokenizer(tokenizerJson, tokenizerConfig)

  const eos = tokenText(tokenizerConfig.eos_token)
  const eosId = eos === undefined ? undefined : tokenizer.tokenId(eos)
  const bos = tokenText(tokenizerConfig.bos_token)
  const template = createChatTemplate(await chatTemplate(read, tokenizerConfig), tokenizer, { bos, eos })
  const ends = [template.turnEnd, ...card.stopTokens, eosId]
  const stopTokens = [...new Set(ends.filter((id) => id !== null && id !== undefined))]
  if (stopTokens.length === 0)
    throw new Error(`Opened ${name}: neither config.json nor tokenizer_config.json names an end-of-sequence token.`)

  // A checkpoint is one file or several with an index; the one file is looked for first.
  const sharded = !(await exists(read, 'model.safetensors')) && (await exists(read, 'model.safetensors.index.json'))
  const entries = await listTensors(read, { sharded })
  const shapes = weightShapes(card)
  for (const [tensor, shape] of options.weights === false ? [] : shapes) {
    const entry = entries.get(tensor)
    if (!entry) throw new Error(`Opened ${name}: the tensor ${tensor} of shape [${shape}] is missing from its weights.`)
  }
  const shapeOf = (tensor: string): number[] => {
    const shape = shapes.get(tensor)
    if (!shape) throw new Error(`Read ${name}: its architecture has no tensor ${tensor}.`)
    return shape
  }
  const find = (tensor: string) => findTensor(entries, tensor, shapeOf(tensor))
  const sizes = fileSizes(entries)
  const readWeights = smallFilesWhole(read, sizes)
  const rows = async (tensor: string, from: number, to: number) => {
    const entry = find(tensor)
    return toFloat32(await readRawRows(readWeights, entry, from, to), entry.dtype)
  }
  return {
    name,
    card,
    parameters: parameterCount(card),
    tokenizer,
    template,
    stopTokens,
    hash: await hashOf([
      JSON.stringify(config),
      JSON.stringify(tokenizerJson),
      ...(await weightDigests(readWeights, sizes, read.digest)),
    ]),
    shapeOf,
    dtypeOf: (tensor) => find(tensor).dtype,
    rows,
    rawRows: async (tensor, from, to) => readRawRows(readWeights, find(tensor), from, to),
    weight: async (tensor) => rows(tensor, 0, shapeOf(tensor)[0]),
  }
}

/** Bytes of each weight file, by path: safetensors leave nothing after their last tensor. */
function fileSizes(entries: Map<string, TensorEntry>): Map<string, number> {
  const sizes = new Map<string, number>()
  for (const { path, end } of entries.values()) sizes.set(path, Math.max(sizes.get(path) ?? 0, end))
  return sizes
}

// All bytes of a small file are wanted, for the hash at least: one request for it instead of one for each tensor.
function smallFilesWhole(source: Read, sizes: Map<string, number>): Read {
  const files = new Map<string, Promise<Uint8Array>>()
  return async (path, range) => {
    if ((sizes.get(path) ?? 0) > KEPT_WHOLE_BYTES) return source(path, range)
    let file = files.get(path)
    if (!file) {
      file = source(path)
      files.set(path, file)
      // A file that did not come is asked for again next time.
      file.catch(() => files.delete(path))
    }
    const bytes = await file
    return range ? bytes.subarray(range.start, range.end) : bytes
  }
}

async function readJson<T>(read: Read, path: string, fallback?: T): Promise<T> {
  let bytes: Uint8Array
  try {
    bytes = await read(path)
  } catch (error) {
    if (fallback !== undefined && isMissing(error)) return fallback
    throw error
  }
  try {
    return JSON.parse(new TextDecoder().decode(bytes)) as T
  } catch (error) {
    throw new Error(`Read ${path}: it is not JSON (${error instanceof Error ? error.message : error}).`)
  }
}

async function exists(read: Read, path: string): Promise<boolean> {
  try {
    await read(path, { start: 0, end: 1 })
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

// By name: the error may have crossed a thread.
function isMissing(error: unknown): boolean {
  const { name, code } = error as { name?: string; code?: string }
  return name === MissingFile.name || code === 'ENOENT'
}

async function chatTemplate(read: Read, config: TokenizerConfig): Promise<string | null> {
  if (typeof config.chat_template === 'string') return config.chat_template
  if (Array.isArray(config.chat_template))
    return config.chat_template.find(({ name }) => name === 'default')?.template ?? null
  try {
    return new TextDecoder().decode(await read('chat_template.jinja'))
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}

function tokenText(token: string | { content: string } | null | undefined): string | undefined {
  return typeof token === 'string' ? token : (token?.content ?? undefined)
}

async function weightDigests(
  read: Read,
  sizes: Map<string, number>,
  known: (path: string) => Promise<string | null> = async () => null,
): Promise<string[]> {
  const digests: string[] = []
  for (const path of [...sizes.keys()].sort()) digests.push((await known(path)) ?? (await digestOf(read, path, sizes)))
  return digests
}

/** SHA-256 of a small file; of a large one that of the SHA-256s of its parts, since crypto.subtle takes no stream. */
async function digestOf(read: Read, path: string, sizes: Map<string, number>): Promise<string> {
  const size = sizes.get(path) ?? 0
  if (size <= KEPT_WHOLE_BYTES) return hex(await sha256(await read(path)))
  const parts: string[] = []
  for (let start = 0; start < size; start += KEPT_WHOLE_BYTES)
    parts.push(hex(await sha256(await read(path, { start, end: Math.min(start + KEPT_WHOLE_BYTES, size) }))))
  return hashOf(parts)
}

function sha256(bytes: Uint8Array): Promise<ArrayBuffer> {
  return crypto.subtle.digest('SHA-256', bytes as BufferSource)
}

async function hashOf(parts: string[]): Promise<string> {
  return hex(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(parts.join('\n'))))
}

function hex(buffer: ArrayBuffer): string {
  return Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
