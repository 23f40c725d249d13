// Decodes many sequences together: slots that are refilled while others go on, prompts read in once per group, and one
// readback per block of tokens, two blocks on their way at a time. A slot that closes computes on and changes nothing.

import { MOST_ALTERNATIVES, readAlternatives } from '../../gpu/kernels/alternatives.ts'
import {
  LOGITS_NOT_FINITE,
  MAX_STOP_TOKENS,
  NOTHING_DRAWN,
  packRule,
  SLOT_WORDS,
  seenWords,
} from '../../gpu/kernels/draw.ts'
import { submit } from '../../gpu/plan.ts'
import type { Alternative, Completion, Sampler, SamplerControl, SamplingOptions, TurnRequest } from '../policy.ts'
import type { Engine } from './engine.ts'
import { BLOCKS_IN_FLIGHT, namedPerRow, PREFILL_ROWS, type SamplingPlans, STEPS_PER_BLOCK } from './samplingPlans.ts'
import { padTo } from './shape.ts'

export interface SamplerSource {
  engine: Engine
  slots: number
  /** Makes the products read these adapters. */
  useAdapters(): void
  version(): number
  /** The plans of the last sampler, when their cache is large enough. */
  plans(positions: number): SamplingPlans
}

interface Sequence {
  ids: number[]
  /** Tokens whose keys and values lie in the slot. */
  cached: number
  slot: number | null
}

interface Turn {
  request: TurnRequest
  sequence: Sequence
  start: number
  limit: number
  logp: number[]
  entropy: number[]
  versions: number[]
  alternatives: Alternative[][]
  stop: Completion['stop'] | null
}

interface Block {
  turns: Turn[]
  rows: number
  steps: number
  version: number
  staging: GPUBuffer
  arrived: Promise<unknown>
}

export function createSampler(source: SamplerSource, options: SamplingOptions, onDispose: () => void): Sampler {
  if (options.stopTokens.length > MAX_STOP_TOKENS) {
    throw new RangeError(
      `Made no sampler: it stops at one of at most ${MAX_STOP_TOKENS} tokens, got ${options.stopTokens.length}.`,
    )
  }
  if ((options.alternatives ?? 0) > MOST_ALTERNATIVES) {
    throw new RangeError(
      `Made no sampler: it names at most ${MOST_ALTERNATIVES} alternatives to a token, got ${options.alternatives}.`,
    )
  }
  return new CompiledSampler(source, options, onDispose)
}

class CompiledSampler implements Sampler {
  readonly #sequences = new Map<number, Sequence>()
  #owners: (Sequence | null)[] = []
  #plans: SamplingPlans | null = null
  #version = -1
  #staging: GPUBuffer[] = []

  constructor(
    readonly source: SamplerSource,
    readonly options: SamplingOptions,
    readonly onDispose: () => void,
  ) {}

  async complete(requests: TurnRequest[], control: SamplerControl = {}): Promise<Completion[]> {
    const turns = requests.map((request) => this.#open(request))
    const waiting = turns.filter(({ stop }) => stop === null)
    if (waiting.length > 0) {
      this.#prepare(Math.max(...waiting.map(({ limit, request }) => Math.max(limit, this.#room(request)))))
      await this.#decode(waiting, control)
    }
    return turns.map((turn) => ({
      sequence: turn.request.sequence,
      ids: Int32Array.from(turn.sequence.ids.slice(turn.start)),
      logp: Float32Array.from(turn.logp),
      entropy: Float32Array.from(turn.entropy),
      versions: Int32Array.from(turn.versions),
      ...(turn.alternatives.length > 0 && { alternatives: turn.alternatives }),
      stop: turn.stop ?? 'max_tokens',
    }))
  }

  dispose(): void {
    this.source.engine.memory.free(...this.#staging)
    this.#staging = []
    this.#sequences.clear()
    this.onDispose()
  }

  #room({ room = 0 }: TurnRequest): number {
    return Math.min(room, this.options.maxLength)
  }

  /** What a row of a step brings back: what was drawn, and the tokens that are named beside it. */
  get #rowBytes(): number {
    return 16 + 8 * namedPerRow(this.options)
  }

  #open(request: TurnRequest): Turn {
    let sequence = this.#sequences.get(request.sequence)
    if (!sequence) {
      sequence = { ids: [], cached: 0, slot: null }
      this.#sequences.set(request.sequence, sequence)
    }
    for (const id of request.ids) sequence.ids.push(id)
    const start = sequence.ids.length
    const limit = Math.min(start + Math.max(0, request.maxTokens), this.options.maxLength)
    const stop = start >= this.options.maxLength ? 'max_length' : request.maxTokens <= 0 ? 'max_tokens' : null
    return { request, sequence, start, limit, logp: [], entropy: [], versions: [], alternatives: [], stop }
  }

  // Plans for sequences of this length, the rule, and the adapters; what an older version cached is forgotten.
  #prepare(longest: number): void {
    const { source, options } = this
    const plans = source.plans(longest)
    source.useAdapters()
    // Another sampler may have filled the cache since.
    if (plans !== this.#plans || plans.holder !== this || source.version() !== this.#version) {
      for (const sequence of this.#sequences.values()) Object.assign(sequence, { cached: 0, slot: null })
      this.#owners = Array.from({ length: plans.size.slots }, () => null)
      source.engine.memory.free(...this.#staging)
      this.#staging = Array.from({ length: BLOCKS_IN_FLIGHT + 1 }, () =>
        source.engine.memory.staging(STEPS_PER_BLOCK * plans.maxRows * this.#rowBytes, 'drawn tokens'),
      )
    }
    this.#plans = plans
    plans.holder = this
    this.#version = source.version()
    const { queue } = source.engine.device
    queue.writeBuffer(plans.rule, 0, packRule(options, options.stopTokens))
    // The slot that pads a batch is empty and closed.
    queue.writeBuffer(plans.slots, plans.size.slots * SLOT_WORDS * 4, new Uint32Array(SLOT_WORDS))
  }

  async #decode(waiting: Turn[], control: SamplerControl): Promise<void> {
    const queue = [...waiting]
    const flying: Block[] = []
    let running: Turn[] = []
    let tokens = 0
    try {
      while (queue.length > 0 || running.length > 0 || flying.length > 0) {
        running = running.filter(({ stop }) => stop === null)
        const fresh = this.#takeSlots(queue, running)
        if (fresh.length > 0) {
          this.#readIn(fresh)
          running.push(...fresh)
        }
        // A turn whose last tokens are already on their way needs no further block.
        const due = running.filter((turn) => this.#remaining(turn, flying) > 0)
        if (due.length > 0 && flying.length < BLOCKS_IN_FLIGHT) {
          flying.push(this.#launch(due, Math.max(...due.map((turn) => this.#remaining(turn, flying)))))
          if (flying.length < BLOCKS_IN_FLIGHT) continue
        }
        const block = flying.shift()
        if (!block) continue
        await block.arrived
        tokens += this.#takeIn(block)
        const open = waiting.filter(({ stop }) => stop === null).length
        control.onProgress?.(tokens, open)
        control.signal?.throwIfAborted()
      }
    } finally {
      await Promise.allSettled(flying.map(({ arrived }) => arrived))
      for (const { staging } of flying) {
        if (staging.mapState === 'mapped') staging.unmap()
        this.#staging.push(staging)
      }
      if (control.signal?.aborted) this.#forgetSlots()
    }
  }

  #remaining(turn: Turn, flying: Block[]): number {
    if (turn.stop !== null) return 0
    const ahead = flying.reduce((sum, block) => sum + (block.turns.includes(turn) ? block.steps : 0), 0)
    return turn.limit - turn.sequence.ids.length - ahead
  }

  #forgetSlots(): void {
    for (const sequence of this.#sequences.values()) Object.assign(sequence, { cached: 0, slot: null })
    this.#owners.fill(null)
  }

  /** Slots for waiting turns: their own where they still have one, else a free one, else one that no open turn uses. */
  #takeSlots(queue: Turn[], running: Turn[]): Turn[] {
    const busy = new Set(running.map(({ sequence }) => sequence.slot))
    const fresh: Turn[] = []
    const wanted = new Set(queue.map(({ sequence }) => sequence.slot))
    while (queue.length > 0) {
      const { sequence } = queue[0]
      if (sequence.slot === null) {
        const slot = this.#freeSlot(busy, wanted)
        if (slot === null) break
        const before = this.#owners[slot]
        if (before) Object.assign(before, { cached: 0, slot: null })
        this.#owners[slot] = sequence
        Object.assign(sequence, { slot, cached: 0 })
      }
      busy.add(sequence.slot)
      fresh.push(queue.shift()!)
    }
    return fresh
  }

  #freeSlot(busy: Set<number | null>, wanted: Set<number | null>): number | null {
    let fallback: number | null = null
    for (const [slot, owner] of this.#owners.entries()) {
      if (busy.has(slot)) continue
      if (owner === null) return slot
      if (!wanted.has(slot)) fallback ??= slot
    }
    if (fallback !== null) return fallback
    for (const slot of this.#owners.keys()) if (!busy.has(slot)) return slot
    return null
  }

  /** Keys and values of everything before each turn's last token; equal prompts are computed once and copied. */
  #readIn(turns: Turn[]): void {
    const plans = this.#plans!
    const leaders: Sequence[] = []
    const copies: [number, number, number][] = []
    const places: number[] = []
    const ids: number[] = []
    for (const { sequence } of turns) {
      const upTo = sequence.ids.length - 1
      if (sequence.cached >= upTo) continue
      // Answers to one question stand together: the last leader is nearly always theirs.
      const leader = sequence.cached === 0 ? leaders.findLast(({ ids }) => sameTokens(ids, sequence.ids)) : undefined
      if (leader) copies.push([leader.slot!, sequence.slot!, upTo])
      else {
        for (let position = sequence.cached; position < upTo; position++) {
          places.push(sequence.slot!, position)
          ids.push(sequence.ids[position])
        }
        if (sequence.cached === 0) leaders.push(sequence)
      }
      sequence.cached = upTo
    }
    for (let at = 0; at < ids.length; at += PREFILL_ROWS)
      this.#prefill(places.slice(2 * at, 2 * (at + PREFILL_ROWS)), ids.slice(at, at + PREFILL_ROWS))
    for (let at = 0; at < copies.length; at += plans.maxRows) this.#copy(copies.slice(at, at + plans.maxRows))
    this.#writeSlots(turns)
  }

  #prefill(places: number[], ids: number[]): void {
    const plans = this.#plans!
    const { device, profiler } = this.source.engine
    const rows = Math.min(PREFILL_ROWS, bucket(ids.length))
    // Padding stands past the end of the cache.
    const table = new Uint32Array(rows * 2).fill(0xffffffff)
    table.set(places)
    for (let row = ids.length; row < rows; row++) table[2 * row] = 0
    const padded = new Uint32Array(rows)
    padded.set(ids)
    device.queue.writeBuffer(plans.prefillRows, 0, table)
    device.queue.writeBuffer(plans.prefillIds, 0, padded)
    submit(device, [plans.prefill(rows)], { profiler })
  }

  #copy(copies: [number, number, number][]): void {
    const plans = this.#plans!
    const { device, profiler } = this.source.engine
    submit(device, [plans.copy(copies)], { profiler })
  }

  #writeSlots(turns: Turn[]): void {
    const plans = this.#plans!
    const { device, shape } = this.source.engine
    const words = seenWords(shape.card.vocabulary)
    for (const { sequence, request, limit } of turns) {
      const { ids } = sequence
      const state = new Uint32Array(SLOT_WORDS)
      state.set([ids[ids.length - 1], ids.length, limit, 1, request.noise.key0, request.noise.key1])
      device.queue.writeBuffer(plans.slots, sequence.slot! * SLOT_WORDS * 4, state)
      if (this.options.repetitionPenalty === 1) continue
      const seen = new Uint32Array(words)
      for (const id of ids) seen[id >>> 5] |= 1 << (id & 31)
      device.queue.writeBuffer(plans.seen, sequence.slot! * words * 4, seen)
    }
  }

  /** Sends a block of tokens on its way. */
  #launch(turns: Turn[], remaining: number): Block {
    const plans = this.#plans!
    const { device, profiler } = this.source.engine
    const steps = Math.min(STEPS_PER_BLOCK, remaining)
    const rows = Math.min(plans.maxRows, bucket(turns.length))
    const table = new Uint32Array(rows * 2)
    for (let row = 0; row < rows; row++) table[2 * row] = turns[row]?.sequence.slot ?? plans.size.slots
    device.queue.writeBuffer(plans.rowTable, 0, table)
    // After an update of the live adapters the rest is sampled by the new ones.
    this.source.useAdapters()
    const version = this.source.version()
    const staging = this.#staging.pop()!
    const drawnBytes = steps * rows * 16
    submit(device, plans.block(rows, steps, this.options), {
      profiler,
      after: (encoder) => {
        encoder.copyBufferToBuffer(plans.drawn, 0, staging, 0, drawnBytes)
        const named = steps * rows * (this.#rowBytes - 16)
        if (named > 0) encoder.copyBufferToBuffer(plans.named(), 0, staging, drawnBytes, named)
      },
    })
    const arrived = staging.mapAsync(1, 0, steps * rows * this.#rowBytes)
    return { turns, rows, steps, version, staging, arrived }
  }

  /** @returns tokens that came in */
  #takeIn({ turns, rows, steps, version, staging }: Block): number {
    const words = new Uint32Array(staging.getMappedRange(0, steps * rows * this.#rowBytes))
    const floats = new Float32Array(words.buffer, words.byteOffset, words.length)
    let tokens = 0
    for (const [row, turn] of turns.entries()) {
      for (let step = 0; step < steps && turn.stop === null; step++) {
        const at = (step * rows + row) * 4
        const token = words[at]
        if (token === NOTHING_DRAWN) break
        if (token === LOGITS_NOT_FINITE) {
          staging.unmap()
          this.#staging.push(staging)
          throw new Error(
            `Sampled no token: the logits of sequence ${turn.request.sequence} at position ${turn.sequence.ids.length} are not finite.`,
          )
        }
        this.#take(turn, token, floats[at + 1], floats[at + 2])
        turn.versions.push(version)
        const { alternatives = 0 } = this.options
        if (alternatives > 0) {
          const from = 4 * steps * rows + (step * rows + row) * 2 * namedPerRow(this.options)
          turn.alternatives.push(readAlternatives(words, floats, from, alternatives))
        }
        tokens++
      }
    }
    staging.unmap()
    this.#staging.push(staging)
    return tokens
  }

  #take(turn: Turn, token: number, logp: number, entropy: number): void {
    const { sequence } = turn
    sequence.ids.push(token)
    // The last token's own key and value are written when it is read again.
    sequence.cached = sequence.ids.length - 1
    turn.logp.push(logp)
    turn.entropy.push(entropy)
    const { stopTokens, stopStrings, maxLength } = this.options
    if (stopTokens.includes(token)) turn.stop = 'token'
    else if (stopStrings.length > 0 && this.#endsWithStop(turn)) {
      turn.stop = 'string'
      this.#close(sequence.slot!)
    } else if (sequence.ids.length - turn.start >= turn.request.maxTokens) turn.stop = 'max_tokens'
    else if (sequence.ids.length >= maxLength) turn.stop = 'max_length'
  }

  #endsWithStop({ sequence, start }: Turn): boolean {
    const { stopStrings, decode } = this.options
    const tail = decode(sequence.ids.slice(Math.max(start, sequence.ids.length - 64)))
    return stopStrings.some((stop) => tail.includes(stop))
  }

  // Only the host knows of stop strings; what the GPU drew past one is dropped.
  #close(slot: number): void {
    const { device } = this.source.engine
    device.queue.writeBuffer(this.#plans!.slots, slot * SLOT_WORDS * 4 + 12, new Uint32Array(1))
  }
}

function sameTokens(a: number[], b: number[]): boolean {
  return a.length === b.length && a.every((id, i) => id === b[i])
}

/** Rows are computed in powers of two from 16 on, and multiples of 128 above that. */
function bucket(rows: number): number {
  if (rows > 128) return padTo(rows, 128)
  let size = 16
  while (size < rows) size *= 2
  return size
}
