// The start-up trial: each kernel that has a variant runs both ways on the buffers it will work on. A variant whose numbers
// are not the plain one's is dropped; of the others the faster is taken. An idle card runs at a fraction of its clock, so
// it is kept busy first, and the two sides take turns.

import type { Pipelines } from './kernel.ts'
import { type Bound, type Dispatch, Plan } from './plan.ts'
import type { Variant, VariantChoices } from './variants.ts'

/** All of a trial together, about: what is not done by then stays plain. */
export const TRIAL_MILLISECONDS = 1500
/** Of those, the share that compiling may take. */
const COMPILING = 0.55
const WARM_MILLISECONDS = 150
/** Of one submission while it is kept busy, at least. */
const BUSY_MILLISECONDS = 5
const ROUNDS = 5
/** GPU time of one side in one round, about: Chromium rounds timestamps to 0.1 ms. */
const ROUND_MILLISECONDS = 2
/** The same where the host's clock must do, which also sees the way there and back. */
const HOST_ROUND_MILLISECONDS = 8
const MOST_REPETITIONS = 512
/** Runs by which the number of repetitions is found where one is too short to be timed. */
const TASTE = 16
/** A variant has to be faster than this share of the plain one's time. */
const WORTHWHILE = 0.97
/** Of every buffer that is written, what is compared. */
const COMPARED_BYTES = 1 << 20

export interface Candidate {
  key: string
  variant: Exclude<Variant, 'plain'>
  /** The same work by the plain kernels and by the variant's, dispatch for dispatch. */
  plain: Dispatch[]
  other: Dispatch[]
  /** Largest |difference| / (1 + |plain|) of a number; 0: the same bits. */
  tolerance: number
}

export interface TrialLine {
  key: string
  variant: Exclude<Variant, 'plain'>
  taken: Variant
  /** Microseconds of one run of the plain kernels and of the variant's, medians; null where they were not timed. */
  plainMicroseconds: number | null
  variantMicroseconds: number | null
  /** Largest |difference| / (1 + |plain|); null where it was not compared. */
  difference: number | null
  /** Why the variant was dropped. */
  note: string | null
}

export interface TrialOptions {
  /** Keeps the device busy before anything is timed. */
  warmUp: Dispatch[]
  /** false: numbers are compared, and every variant that agrees is taken. */
  timed: boolean
  milliseconds?: number
}

/** The buffers must hold numbers worth computing with; what the dispatches write is overwritten. */
export async function runTrial(
  pipelines: Pipelines,
  candidates: Candidate[],
  { warmUp, timed, milliseconds = TRIAL_MILLISECONDS }: TrialOptions,
): Promise<TrialLine[]> {
  const deadline = performance.now() + milliseconds
  const prepared = await compile(pipelines, candidates, timed ? COMPILING * milliseconds : null)
  const lines: TrialLine[] = []
  const sound: { sides: Sides; line: TrialLine }[] = []
  for (const [index, candidate] of candidates.entries()) {
    const { key, variant } = candidate
    const line: TrialLine = {
      key,
      variant,
      taken: 'plain',
      plainMicroseconds: null,
      variantMicroseconds: null,
      difference: null,
      note: prepared[index],
    }
    lines.push(line)
    if (line.note !== null) continue
    line.difference = Math.max(...(await Promise.all(pairs(candidate).map((pair) => difference(pipelines, ...pair)))))
    if (!(line.difference <= candidate.tolerance)) {
      line.note = `its numbers are off by ${line.difference.toExponential(1)}, at most ${candidate.tolerance} is right`
      continue
    }
    sound.push({ sides: [new Plan(pipelines, candidate.plain), new Plan(pipelines, candidate.other)], line })
  }
  if (!timed) {
    for (const { line } of sound) line.taken = line.variant
    return lines
  }
  if (sound.length === 0) return lines
  const clock = clockOf(pipelines.device)
  await keepBusy(pipelines, warmUp, Math.min(WARM_MILLISECONDS, deadline - performance.now()))
  for (const { sides, line } of sound) {
    const times = await measure(clock, sides, deadline - performance.now())
    if (!times) {
      line.note = 'there was no time left to measure it'
      continue
    }
    const [plain, other] = times
    line.plainMicroseconds = plain * 1000
    line.variantMicroseconds = other * 1000
    if (other < WORTHWHILE * plain) line.taken = line.variant
  }
  clock.dispose()
  return lines
}

/** The record that is kept with a run: what is plain is not named. */
export function choicesOf(lines: TrialLine[]): VariantChoices {
  return Object.fromEntries(lines.filter(({ taken }) => taken !== 'plain').map(({ key, taken }) => [key, taken]))
}

// ── Compiling ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Per candidate why it cannot run, or null. @param within milliseconds; null: as long as it takes */
async function compile(
  pipelines: Pipelines,
  candidates: Candidate[],
  within: number | null,
): Promise<(string | null)[]> {
  const notes: (string | null)[] = candidates.map(() => 'it was not compiled in time')
  const all = candidates.map(async ({ plain, other }, index) => {
    try {
      await Promise.all([...plain, ...other].map(({ kernel }) => pipelines.prepare(kernel)))
      notes[index] = null
    } catch (error) {
      notes[index] = `it does not compile: ${error instanceof Error ? error.message.split('\n')[0] : String(error)}`
    }
  })
  const done = Promise.all(all)
  if (within === null) await done
  else await Promise.race([done, new Promise((resolve) => setTimeout(resolve, within))])
  return [...notes]
}

// ── Comparing ────────────────────────────────────────────────────────────────────────────────────────────────────────────

interface Part {
  buffer: GPUBuffer
  offset: number
  size: number
}

function written({ kernel, buffers }: Dispatch): Part[] {
  return buffers.filter((_, i) => kernel.bindings[i] === 'write').map(partOf)
}

function partOf(bound: Bound): Part {
  return 'buffer' in bound ? bound : { buffer: bound, offset: 0, size: bound.size }
}

function pairs({ plain, other }: Candidate): [Dispatch, Dispatch][] {
  return plain.map((dispatch, i) => [dispatch, other[i]])
}

/** Both start from what the written buffers hold, all of it, and leave them so. */
async function difference(pipelines: Pipelines, plain: Dispatch, other: Dispatch): Promise<number> {
  const { device } = pipelines
  const parts = written(plain)
  const compared = parts.map((part) => ({ ...part, size: Math.min(part.size, COMPARED_BYTES) }))
  const make = (of: Part[], usage: number) =>
    device.createBuffer({ size: of.reduce((sum, { size }) => sum + size, 0), usage })
  device.pushErrorScope('out-of-memory')
  const before = parts.map((part) => make([part], GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST))
  const results = [plain, other].map(() => make(compared, GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST))
  const full = await device.popErrorScope()
  if (full) {
    for (const buffer of [...before, ...results]) buffer.destroy()
    throw new Error(`the GPU's memory is too full for a trial (${full.message.split('\n')[0]}).`)
  }
  const encoder = device.createCommandEncoder()
  parts.forEach(({ buffer, offset, size }, p) => {
    encoder.copyBufferToBuffer(buffer, offset, before[p], 0, size)
  })
  for (const [i, dispatch] of [plain, other].entries()) {
    const pass = encoder.beginComputePass()
    new Plan(pipelines, [dispatch]).record(pass)
    pass.end()
    let at = 0
    for (const { buffer, offset, size } of compared) {
      encoder.copyBufferToBuffer(buffer, offset, results[i], at, size)
      at += size
    }
    parts.forEach(({ buffer, offset, size }, p) => {
      encoder.copyBufferToBuffer(before[p], 0, buffer, offset, size)
    })
  }
  device.queue.submit([encoder.finish()])
  const [expected, got] = await Promise.all(
    results.map(async (buffer) => {
      await buffer.mapAsync(GPUMapMode.READ)
      return buffer.getMappedRange()
    }),
  )
  const found = largestDifference(expected, got)
  for (const buffer of [...before, ...results]) buffer.destroy()
  return found
}

/** Words with the same bits are equal, whatever they are; others are compared as floats. */
export function largestDifference(expected: ArrayBuffer, got: ArrayBuffer): number {
  const [bits, otherBits] = [new Uint32Array(expected), new Uint32Array(got)]
  const [floats, otherFloats] = [new Float32Array(expected), new Float32Array(got)]
  let largest = 0
  for (let i = 0; i < bits.length; i++) {
    if (bits[i] === otherBits[i]) continue
    const error = Math.abs(floats[i] - otherFloats[i]) / (1 + Math.abs(floats[i]))
    if (!(error <= largest)) largest = Number.isNaN(error) ? Number.POSITIVE_INFINITY : error
  }
  return largest
}

// ── Timing ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

type Sides = [Plan, Plan]

async function keepBusy(pipelines: Pipelines, dispatches: Dispatch[], milliseconds: number): Promise<void> {
  const { queue } = pipelines.device
  const plan = new Plan(pipelines, dispatches)
  const until = performance.now() + milliseconds
  let repetitions = 1
  // One submission computes while the next is made; they grow until making one takes no time beside computing it.
  let before: Promise<unknown> = Promise.resolve()
  while (performance.now() < until) {
    const began = performance.now()
    record(pipelines.device, plan, repetitions)
    const done = queue.onSubmittedWorkDone()
    await before
    before = done
    if (performance.now() - began < BUSY_MILLISECONDS) repetitions = Math.min(MOST_REPETITIONS, 2 * repetitions)
  }
  await before
}

function record(device: GPUDevice, plan: Plan, repetitions: number): void {
  const encoder = device.createCommandEncoder()
  const pass = encoder.beginComputePass()
  for (let i = 0; i < repetitions; i++) plan.record(pass)
  pass.end()
  device.queue.submit([encoder.finish()])
}

interface Clock {
  /** Of one round, about. */
  roundMilliseconds: number
  /** Milliseconds of each: so many runs of a plan, one after the other. */
  time(passes: [Plan, number][]): Promise<number[]>
  dispose(): void
}

/** Milliseconds of one run of each side, medians over rounds in which they take turns; null where that takes too long. */
async function measure(clock: Clock, sides: Sides, milliseconds: number): Promise<[number, number] | null> {
  if (milliseconds <= 0) return null
  let [once] = await clock.time([[sides[0], 1]])
  if (once < clock.roundMilliseconds / 2) once = (await clock.time([[sides[0], TASTE]]))[0] / TASTE
  const wanted = Math.ceil(clock.roundMilliseconds / Math.max(once, 1e-4))
  const repetitions = Math.min(MOST_REPETITIONS, wanted)
  if (2 * ROUNDS * repetitions * once > milliseconds) return null
  const order = turns()
  const times = await clock.time(order.map((side) => [sides[side], repetitions]))
  return medians(order, times, repetitions)
}

function clockOf(device: GPUDevice): Clock {
  return device.features.has('timestamp-query') ? gpuClock(device) : hostClock(device)
}

function gpuClock(device: GPUDevice): Clock {
  const count = ROUNDS * 4
  const set = device.createQuerySet({ type: 'timestamp', count })
  const resolved = device.createBuffer({
    size: count * 8,
    usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC,
  })
  const staging = device.createBuffer({ size: count * 8, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST })

  async function time(passes: [Plan, number][]): Promise<number[]> {
    const encoder = device.createCommandEncoder()
    passes.forEach(([plan, repetitions], i) => {
      const pass = encoder.beginComputePass({
        timestampWrites: { querySet: set, beginningOfPassWriteIndex: 2 * i, endOfPassWriteIndex: 2 * i + 1 },
      })
      for (let n = 0; n < repetitions; n++) plan.record(pass)
      pass.end()
    })
    const bytes = passes.length * 16
    encoder.resolveQuerySet(set, 0, passes.length * 2, resolved, 0)
    encoder.copyBufferToBuffer(resolved, 0, staging, 0, bytes)
    device.queue.submit([encoder.finish()])
    await staging.mapAsync(GPUMapMode.READ, 0, bytes)
    const ticks = new BigUint64Array(staging.getMappedRange(0, bytes).slice(0))
    staging.unmap()
    return passes.map((_, i) => Number(ticks[2 * i + 1] - ticks[2 * i]) / 1e6)
  }

  return {
    roundMilliseconds: ROUND_MILLISECONDS,
    time,
    dispose() {
      set.destroy()
      resolved.destroy()
      staging.destroy()
    },
  }
}

function hostClock(device: GPUDevice): Clock {
  return {
    roundMilliseconds: HOST_ROUND_MILLISECONDS,
    async time(passes) {
      const times: number[] = []
      for (const [plan, repetitions] of passes) {
        const began = performance.now()
        record(device, plan, repetitions)
        await device.queue.onSubmittedWorkDone()
        times.push(performance.now() - began)
      }
      return times
    },
    dispose() {},
  }
}

/** Sides in the order of their turns: each goes first in every other round. */
function turns(): (0 | 1)[] {
  return Array.from({ length: ROUNDS }, (_, round): (0 | 1)[] => (round % 2 ? [1, 0] : [0, 1])).flat()
}

function medians(order: (0 | 1)[], times: number[], repetitions: number): [number, number] {
  const of = (side: 0 | 1) => {
    const own = times.filter((_, i) => order[i] === side).sort((a, b) => a - b)
    return own[own.length >> 1] / repetitions
  }
  return [of(0), of(1)]
}
