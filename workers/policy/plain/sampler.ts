// Decodes a batch of sequences together, one readback of logits per token: the draw itself is made in JavaScript. Prompts
// that several sequences share are computed once. A later turn computes its whole sequence again (compiled/ does not).

import { type Tensor, type Tensor2D, tf } from '../../gpu/tfjs.ts'
import { uniform } from '../../random.ts'
import type { Alternative, Completion, Sampler, SamplerControl, SamplingOptions, TurnRequest } from '../policy.ts'
import { drawToken, likeliest } from '../sampling.ts'
import { bucketed, pad, powerOfTwo } from './batching.ts'
import { type Cache, causalMask, decodeForward, decodeMasks, logits, rotaryTable, wholeForward } from './network.ts'
import { halfTurn } from './operations.ts'
import type { Parameters } from './parameters.ts'

export interface SamplerSource {
  parameters(): Parameters
  version(): number
  /** Sequences that decode together; more wait for the next batch. */
  slots: number
  /** Prompts that are computed together. */
  rowsPerPass: number
  /** Called when buffers of one phase have become useless to the next. */
  onPhaseEnd(): void
}

interface Sequence {
  ids: number[]
  start: number
  request: TurnRequest
  logp: number[]
  entropy: number[]
  alternatives: Alternative[][]
  stop: Completion['stop'] | null
}

export function createSampler(source: SamplerSource, options: SamplingOptions, onDispose: () => void): Sampler {
  const history = new Map<number, number[]>()
  return {
    async complete(turns, control = {}) {
      const completions: Completion[] = []
      const pulse = createPulse(turns.length, control)
      for (let at = 0; at < turns.length; at += source.slots) {
        const batch = turns.slice(at, at + source.slots).map((request) => open(request, history))
        await decode(batch, source, options, pulse)
        for (const sequence of batch) {
          history.set(sequence.request.sequence, sequence.ids)
          completions.push(close(sequence, source.version()))
        }
      }
      return completions
    },
    dispose() {
      history.clear()
      onDispose()
    },
  }
}

const BREATH_MS = 50

/** Progress over all batches of one call, and a moment for the message loop: wasm and cpu never wait for anything. */
interface Pulse {
  tokens: number
  open: number
  beat(): Promise<void>
}

function createPulse(sequences: number, control: SamplerControl): Pulse {
  let breath = performance.now()
  const pulse: Pulse = {
    tokens: 0,
    open: sequences,
    async beat() {
      control.onProgress?.(pulse.tokens, pulse.open)
      if (performance.now() - breath > BREATH_MS) {
        await new Promise((resolve) => setTimeout(resolve))
        breath = performance.now()
      }
      control.signal?.throwIfAborted()
    },
  }
  return pulse
}

function open(request: TurnRequest, history: Map<number, number[]>): Sequence {
  const ids = [...(history.get(request.sequence) ?? []), ...request.ids]
  return { ids, start: ids.length, request, logp: [], entropy: [], alternatives: [], stop: null }
}

function close(sequence: Sequence, version: number): Completion {
  return {
    sequence: sequence.request.sequence,
    ids: Int32Array.from(sequence.ids.slice(sequence.start)),
    logp: Float32Array.from(sequence.logp),
    entropy: Float32Array.from(sequence.entropy),
    versions: new Int32Array(sequence.logp.length).fill(version),
    stop: sequence.stop ?? 'max_tokens',
    ...(sequence.alternatives.length > 0 && { alternatives: sequence.alternatives }),
  }
}

async function decode(batch: Sequence[], source: SamplerSource, options: SamplingOptions, pulse: Pulse): Promise<void> {
  for (const sequence of batch) {
    limit(sequence, options)
    if (sequence.stop !== null) pulse.open--
  }
  let open = batch.filter((sequence) => sequence.stop === null)
  if (open.length === 0) return
  const p = source.parameters()
  const longest = Math.max(
    ...open.map(({ ids, request }) => Math.min(ids.length + request.maxTokens, options.maxLength)),
  )
  const S = bucketed(longest, p.card.maxLength)
  const turn = halfTurn(p.card.headWidth)
  const filled = await prefill(source, p, open, S, turn)
  try {
    let rows: ArrayLike<number> = filled.logits
    let rowOf = filled.rowOf
    for (;;) {
      const V = p.card.vocabulary
      open.forEach((sequence, slot) => {
        if (sequence.stop === null) {
          const row = (rows as Float32Array).subarray(rowOf[slot] * V, (rowOf[slot] + 1) * V)
          draw(sequence, row, options)
          pulse.tokens++
          if (sequence.stop !== null) pulse.open--
        }
      })
      const left = open.filter((sequence) => sequence.stop === null).length
      await pulse.beat()
      if (left === 0) return
      if (left <= open.length / 2 && open.length > 8) {
        const kept = [...open.keys()].filter((slot) => open[slot].stop === null)
        narrow(filled.cache, kept)
        source.onPhaseEnd()
        open = kept.map((slot) => open[slot])
      }
      const next = tf.tidy(() => step(p, open, S, turn, filled.cache))
      rows = await next.data()
      next.dispose()
      rowOf = Array.from(open.keys())
    }
  } finally {
    tf.dispose([...filled.cache.keys, ...filled.cache.values, turn])
  }
}

// A sequence that is already at its limit samples nothing.
function limit(sequence: Sequence, options: SamplingOptions): void {
  if (sequence.ids.length >= options.maxLength) sequence.stop = 'max_length'
  else if (sequence.request.maxTokens <= 0) sequence.stop = 'max_tokens'
}

function draw(sequence: Sequence, row: Float32Array, options: SamplingOptions): void {
  const position = sequence.ids.length
  const { token, logp, entropy } = drawToken(
    row,
    uniform(sequence.request.noise, position),
    options,
    options.repetitionPenalty === 1 ? [] : sequence.ids,
  )
  if (token < 0)
    throw new Error(
      `Sampled no token: the logits of sequence ${sequence.request.sequence} at position ${position} are not finite.`,
    )
  sequence.ids.push(token)
  sequence.logp.push(logp)
  sequence.entropy.push(entropy)
  if (options.alternatives) sequence.alternatives.push(likeliest(row, options.alternatives, options.temperature))
  const sampled = position + 1 - sequence.start
  if (options.stopTokens.includes(token)) sequence.stop = 'token'
  else if (options.stopStrings.length > 0 && endsWithStop(sequence, options)) sequence.stop = 'string'
  else if (sampled >= sequence.request.maxTokens) sequence.stop = 'max_tokens'
  else if (position + 1 >= options.maxLength) sequence.stop = 'max_length'
}

function endsWithStop(sequence: Sequence, { stopStrings, decode: text }: SamplingOptions): boolean {
  const tail = text(sequence.ids.slice(Math.max(sequence.start, sequence.ids.length - 64)))
  return stopStrings.some((stop) => tail.includes(stop))
}

interface Prefilled {
  cache: Cache
  logits: Float32Array
  rowOf: number[]
}

/** Computes each different prompt once and spreads its keys, values and logits over the sequences that share it. */
async function prefill(
  source: SamplerSource,
  p: Parameters,
  sequences: Sequence[],
  S: number,
  turn: Tensor2D,
): Promise<Prefilled> {
  source.onPhaseEnd()
  const prompts: number[][] = []
  const index = new Map<string, number>()
  const rowOf = sequences.map(({ ids }) => {
    const key = ids.join()
    const known = index.get(key)
    if (known !== undefined) return known
    index.set(key, prompts.length)
    return prompts.push(ids) - 1
  })
  const T = Math.min(bucketed(Math.max(...prompts.map((ids) => ids.length)), p.card.maxLength), S)
  const parts: Part[] = []
  for (let at = 0; at < prompts.length; at += source.rowsPerPass) {
    parts.push(await prefillPart(p, prompts.slice(at, at + source.rowsPerPass), T, turn))
  }
  source.onPhaseEnd()
  const spread = tf.tensor1d(rowOf, 'int32')
  const join = (of: (part: Part) => Tensor[], room: [number, number][]) =>
    of(parts[0]).map((_, layer) => {
      const tensor = tf.tidy(() =>
        tf.keep(tf.gather(tf.pad(tf.concat(parts.map((part) => of(part)[layer])), room), spread)),
      )
      tf.dispose(parts.map((part) => of(part)[layer]))
      // One layer's passing tensors make room for the next one's.
      source.onPhaseEnd()
      return tensor
    })
  const none: [number, number] = [0, 0]
  const cache = {
    keys: join((part) => part.keys, [none, none, none, [0, S - T]]),
    values: join((part) => part.values, [none, none, [0, S - T], none]),
  }
  spread.dispose()
  const logits = new Float32Array(prompts.length * p.card.vocabulary)
  parts.forEach((part, i) => {
    logits.set(part.logits, i * source.rowsPerPass * p.card.vocabulary)
  })
  source.onPhaseEnd()
  return { cache, logits, rowOf }
}

interface Part extends Cache {
  logits: Float32Array
}

/** Keys [P, K, d, T], values [P, K, T, d] and the logits after the last token of each prompt. */
async function prefillPart(p: Parameters, prompts: number[][], T: number, turn: Tensor2D): Promise<Part> {
  const P = powerOfTwo(prompts.length)
  const part: Cache = { keys: [], values: [] }
  const last = tf.tidy(() => {
    const table = rotaryTable(
      p.card,
      Array.from({ length: T }, (_, t) => t),
    )
    const d = p.card.headWidth
    // Positions after a prompt's end hold padding's keys and values; zero them, since the cache is added to.
    const inside = tf.tensor(
      prompts.flatMap((ids) => Array.from({ length: T }, (_, t) => (t < ids.length ? 1 : 0))),
      [prompts.length, 1, 1, T],
    )
    const real = (tensor: Tensor) => tf.slice(tensor, 0, prompts.length)
    const hidden = wholeForward(
      p,
      {
        ids: pad(prompts, T, P),
        B: P,
        T,
        positions: { cos: tf.tensor(table.cos, [1, T, 1, d]), sin: tf.tensor(table.sin, [1, T, 1, d]), turn },
        mask: causalMask(T),
      },
      (keys, values) => {
        part.keys.push(tf.keep(tf.mul(real(keys), inside)))
        part.values.push(tf.keep(tf.mul(real(values), tf.reshape(inside, [prompts.length, 1, T, 1]))))
      },
    )
    const ends = tf.tensor1d(
      prompts.map((ids, row) => row * T + ids.length - 1),
      'int32',
    )
    return logits(p, tf.gather(hidden, ends))
  })
  const values = (await last.data()) as Float32Array
  last.dispose()
  return { ...part, logits: values }
}

function step(p: Parameters, open: Sequence[], S: number, turn: Tensor2D, cache: Cache): Tensor {
  const B = open.length
  const d = p.card.headWidth
  // A finished sequence stays in its slot and writes over its last position.
  const positions = open.map(({ ids }) => ids.length - 1)
  const table = rotaryTable(p.card, positions)
  return decodeForward(
    p,
    {
      ids: Int32Array.from(open, ({ ids }) => ids[ids.length - 1]),
      positions: { cos: tf.tensor(table.cos, [B, 1, d]), sin: tf.tensor(table.sin, [B, 1, d]), turn },
      ...decodeMasks(positions, S),
    },
    cache,
  )
}

/** Keeps only these slots of the cache. */
function narrow(cache: Cache, slots: number[]): void {
  tf.tidy(() => {
    const index = tf.tensor1d(slots, 'int32')
    for (const list of [cache.keys, cache.values]) {
      list.forEach((tensor, layer) => {
        list[layer] = tf.keep(tf.gather(tensor, index))
        tensor.dispose()
      })
    }
  })
}
