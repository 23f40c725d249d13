// Opens a model folder in Hugging Face layout through `read`: card, tokenizer, chat template, and where the weights lie.
// Which thread, file or network the bytes come from is the host's business.

import { type Card, parameterCount, readCard, weightShapes } from './card.ts'
import { type ChatTemplate, createChatTemplate } from './chatTemplate.ts'
import { createTokenizer, type Tokenizer } from './tokenizer.ts'
import { listTensors, type Read, readTensor } from './weights.ts'

export interface Model {
  name: string
  card: Card
  parameters: number
  tokenizer: Tokenizer
  template: ChatTemplate
  stopTokens: number[]
  /** SHA-256 over config, tokenizer and every weight byte, hexadecimal. */
  hash: string
  /** One weight by its Hugging Face name, as f32. */
  weight(name: string): Promise<Float32Array>
}

interface TokenizerConfig {
  chat_template?: string | { name: string; template: string }[]
  eos_token?: string | { content: string }
  bos_token?: string | { content: string } | null
}

/**
 * @param options `weights: false` opens an architecture without weights, to be trained from nothing
 * @throws a sentence naming the file and what is wrong with it
 */
export async function openModel(source: Read, name: string, options: { weights?: boolean } = {}): Promise<Model> {
  const read = wholeWeights(source)
  const config = await readJson<Record<string, unknown>>(read, 'config.json')
  const generation = await readJson<Record<string, unknown>>(read, 'generation_config.json', {})
  const card = readCard(config, generation)
  const tokenizerJson = await readJson<object>(read, 'tokenizer.json')
  const tokenizerConfig = await readJson<TokenizerConfig>(read, 'tokenizer_config.json', {})
  const tokenizer = createTokenizer(tokenizerJson, tokenizerConfig)

  const eos = tokenText(tokenizerConfig.eos_token)
  const eosId = eos === undefined ? undefined : tokenizer.tokenId(eos)
  const stopTokens = [...new Set([...card.stopTokens, ...(eosId === undefined ? [] : [eosId])])]
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
  return {
    name,
    card,
    parameters: parameterCount(card),
    tokenizer,
    template: createChatTemplate(await chatTemplate(read, tokenizerConfig), tokenizer, {
      bos: tokenText(tokenizerConfig.bos_token),
      eos,
    }),
    stopTokens,
    hash: await hashOf([
      JSON.stringify(config),
      JSON.stringify(tokenizerJson),
      ...(await weightDigests(
        read,
        [...entries.values()].map((e) => e.path),
      )),
    ]),
    weight: (tensor) => readTensor(read, entries, tensor, shapes.get(tensor) ?? []),
  }
}

// Every byte of the weights is needed, for the hash at least: each file is read once, and its parts come from memory.
function wholeWeights(source: Read): Read {
  const files = new Map<string, Promise<Uint8Array>>()
  return async (path, range) => {
    if (!path.endsWith('.safetensors')) return source(path, range)
    if (!files.has(path)) files.set(path, source(path))
    const bytes = await files.get(path)!
    return range ? bytes.subarray(range.start, range.end) : bytes
  }
}

async function readJson<T>(read: Read, path: string, fallback?: T): Promise<T> {
  let bytes: Uint8Array
  try {
    bytes = await read(path)
  } catch (error) {
    if (fallback !== undefined) return fallback
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
  } catch {
    return false
  }
}

async function chatTemplate(read: Read, config: TokenizerConfig): Promise<string | null> {
  if (typeof config.chat_template === 'string') return config.chat_template
  if (Array.isArray(config.chat_template))
    return config.chat_template.find(({ name }) => name === 'default')?.template ?? null
  try {
    return new TextDecoder().decode(await read('chat_template.jinja'))
  } catch {
    return null
  }
}

function tokenText(token: string | { content: string } | null | undefined): string | undefined {
  return typeof token === 'string' ? token : (token?.content ?? undefined)
}

async function weightDigests(read: Read, paths: string[]): Promise<string[]> {
  const digests: string[] = []
  for (const path of [...new Set(paths)].sort())
    digests.push(hex(await crypto.subtle.digest('SHA-256', (await read(path)) as BufferSource)))
  return digests
}

async function hashOf(parts: string[]): Promise<string> {
  return hex(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(parts.join('\n'))))
}

function hex(buffer: ArrayBuffer): string {
  return Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
