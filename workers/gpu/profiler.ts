// GPU time by kernel name, from timestamp queries where the device has them. While it is active every dispatch is a pass
// of its own, which costs time itself: shares are right, sums are a little high.
//
// Each submission has a slice of queries and a staging buffer of its own, from its first dispatch until its times have
// arrived: any number of submissions may be on their way at once, and nobody has to wait between them.

import { PassClock } from './passClock.ts'

/** Dispatches of one slice; two queries each. */
export const SLICE = 256
const SLICES_PER_SET = 8
/** 32768 queries and half a megabyte, made as they are needed. */
const MOST_SETS = 8
/** Dispatches of one query set. */
export const SET = SLICES_PER_SET * SLICE
const SLICE_BYTES = SLICE * 2 * 8

export interface KernelTime {
  name: string
  dispatches: number
  /** Milliseconds on the GPU. */
  milliseconds: number
}

export interface KernelTimes {
  /** Longest first. */
  kernels: KernelTime[]
  /** Dispatches that ran without a time: too many were on their way at once. */
  untimed: number
}

interface Tally {
  kernels: Map<string, { dispatches: number; nanoseconds: number }>
  untimed: number
}

interface Place {
  set: GPUQuerySet
  first: number
  resolved: GPUBuffer
  staging: GPUBuffer
}

export class Profiler {
  /** How long the GPU computes, while no kernel is timed by itself; null where the device tells no times. */
  readonly clock: PassClock | null
  #active = false
  readonly #sets: GPUQuerySet[] = []
  readonly #buffers: GPUBuffer[] = []
  readonly #free: Place[] = []
  readonly #arriving = new Set<Promise<void>>()
  #tally: Tally = { kernels: new Map(), untimed: 0 }
  #disposed = false

  /** At most `mostSets` × `SET` dispatches are timed at once. */
  constructor(
    readonly device: GPUDevice,
    readonly mostSets = MOST_SETS,
  ) {
    this.clock = this.offered ? new PassClock(device) : null
  }

  /** Whether the device tells times. */
  get offered(): boolean {
    return this.device.features.has('timestamp-query')
  }

  get active(): boolean {
    return this.#active
  }

  /** Turned on, it counts from nothing; what is still on its way belongs to the count before. */
  turn(on: boolean): void {
    this.#active = on && this.offered
    if (on) this.#tally = { kernels: new Map(), untimed: 0 }
  }

  /** For the dispatches of one submission, at most `SLICE`; null where none is free, and these are then not timed. */
  slice(dispatches: number): TimedSlice | null {
    const place = this.#free.pop() ?? this.#more()
    const tally = this.#tally
    if (!place) {
      tally.untimed += dispatches
      return null
    }
    return new TimedSlice(place, (names) => this.#await(place, names, tally))
  }

  /** All that was sent off before this call; waits for the GPU. */
  async times(): Promise<KernelTimes> {
    const tally = this.#tally
    await Promise.all(this.#arriving)
    return {
      kernels: [...tally.kernels]
        .map(([name, { dispatches, nanoseconds }]) => ({ name, dispatches, milliseconds: nanoseconds / 1e6 }))
        .sort((a, b) => b.milliseconds - a.milliseconds),
      untimed: tally.untimed,
    }
  }

  dispose(): void {
    this.#disposed = true
    this.#active = false
    this.#free.length = 0
    this.clock?.dispose()
    for (const gone of [...this.#sets, ...this.#buffers]) gone.destroy()
  }

  #more(): Place | undefined {
    if (this.#disposed || this.#sets.length >= this.mostSets) return undefined
    const { device } = this
    const set = device.createQuerySet({ type: 'timestamp', count: SET * 2 })
    this.#sets.push(set)
    for (let i = 0; i < SLICES_PER_SET; i++) {
      const resolved = device.createBuffer({
        size: SLICE_BYTES,
        usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC,
      })
      const staging = device.createBuffer({
        size: SLICE_BYTES,
        usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
      })
      this.#buffers.push(resolved, staging)
      this.#free.push({ set, first: i * SLICE * 2, resolved, staging })
    }
    return this.#free.pop()
  }

  #await(place: Place, names: string[], tally: Tally): void {
    const arriving = this.#takeIn(place, names, tally)
      .catch(() => {
        // The device is gone, or was put away.
        tally.untimed += names.length
      })
      .finally(() => this.#arriving.delete(arriving))
    this.#arriving.add(arriving)
  }

  async #takeIn(place: Place, names: string[], { kernels }: Tally): Promise<void> {
    const { staging } = place
    const bytes = names.length * 16
    await staging.mapAsync(GPUMapMode.READ, 0, bytes)
    const ticks = new BigInt64Array(staging.getMappedRange(0, bytes))
    for (const [i, name] of names.entries()) {
      const entry = kernels.get(name) ?? { dispatches: 0, nanoseconds: 0 }
      entry.dispatches++
      // A clock that the driver set anew in between says nothing.
      entry.nanoseconds += Math.max(0, Number(ticks[2 * i + 1] - ticks[2 * i]))
      kernels.set(name, entry)
    }
    staging.unmap()
    if (!this.#disposed) this.#free.push(place)
  }
}

export class TimedSlice {
  readonly #names: string[] = []

  constructor(
    readonly place: Place,
    readonly onSent: (names: string[]) => void,
  ) {}

  beginPass(encoder: GPUCommandEncoder, name: string): GPUComputePassEncoder {
    const { set, first } = this.place
    const at = first + this.#names.length * 2
    this.#names.push(name)
    return encoder.beginComputePass({
      timestampWrites: { querySet: set, beginningOfPassWriteIndex: at, endOfPassWriteIndex: at + 1 },
    })
  }

  /** Behind the last pass of the submission. */
  resolve(encoder: GPUCommandEncoder): void {
    const { set, first, resolved, staging } = this.place
    encoder.resolveQuerySet(set, first, this.#names.length * 2, resolved, 0)
    encoder.copyBufferToBuffer(resolved, 0, staging, 0, this.#names.length * 16)
  }

  /** Once it is submitted. */
  sent(): void {
    this.onSent(this.#names)
  }
}
