// How long the GPU computes: one timestamp at the beginning and one at the end of every pass, read once in a while. Browsers
// round timestamps (Chromium to 100 µs), so short spells are right on average only.

/** Queries of one set; the most that WebGPU allows. */
const QUERIES = 4096
const MOST_SETS = 8

export class PassClock {
  readonly #sets: GPUQuerySet[] = []
  #resolved: GPUBuffer | null = null
  #staging: GPUBuffer | null = null
  #queries = 0
  #complete = true

  constructor(readonly device: GPUDevice) {}

  /** A pass that is timed, or, where too many are, the confession that the next answer would be too small. */
  begin(encoder: GPUCommandEncoder): GPUComputePassEncoder {
    const place = this.#place()
    if (!place) return encoder.beginComputePass()
    const [querySet, at] = place
    return encoder.beginComputePass({
      timestampWrites: { querySet, beginningOfPassWriteIndex: at, endOfPassWriteIndex: at + 1 },
    })
  }

  /** A submission ran without being timed. */
  missed(): void {
    this.#complete = false
  }

  /** Seconds since the last call in which some pass was computing; null when not every pass was timed. */
  async busySeconds(): Promise<number | null> {
    const [queries, complete] = [this.#queries, this.#complete]
    this.#queries = 0
    this.#complete = true
    if (queries === 0 || !complete) return complete ? 0 : null
    const { resolved, staging } = this.#buffers()
    const encoder = this.device.createCommandEncoder()
    this.#sets.forEach((set, i) => {
      const count = Math.min(QUERIES, queries - i * QUERIES)
      if (count > 0) encoder.resolveQuerySet(set, 0, count, resolved, i * QUERIES * 8)
    })
    encoder.copyBufferToBuffer(resolved, 0, staging, 0, queries * 8)
    this.device.queue.submit([encoder.finish()])
    await staging.mapAsync(GPUMapMode.READ, 0, queries * 8)
    const ticks = new BigInt64Array(staging.getMappedRange(0, queries * 8).slice(0))
    staging.unmap()
    return Number(covered(ticks)) / 1e9
  }

  dispose(): void {
    for (const set of this.#sets) set.destroy()
    this.#resolved?.destroy()
    this.#staging?.destroy()
  }

  #place(): [GPUQuerySet, number] | null {
    const index = Math.floor(this.#queries / QUERIES)
    if (index >= MOST_SETS) {
      this.#complete = false
      return null
    }
    if (index === this.#sets.length) {
      this.#sets.push(this.device.createQuerySet({ type: 'timestamp', count: QUERIES }))
    }
    const at = this.#queries % QUERIES
    this.#queries += 2
    return [this.#sets[index], at]
  }

  #buffers() {
    const size = MOST_SETS * QUERIES * 8
    const { COPY_SRC, COPY_DST, MAP_READ, QUERY_RESOLVE } = GPUBufferUsage
    this.#resolved ??= this.device.createBuffer({ size, usage: QUERY_RESOLVE | COPY_SRC })
    this.#staging ??= this.device.createBuffer({ size, usage: MAP_READ | COPY_DST })
    return { resolved: this.#resolved, staging: this.#staging }
  }
}

/** Nanoseconds covered by the intervals (begin, end): passes may overlap. */
export function covered(ticks: BigInt64Array): bigint {
  const intervals: [bigint, bigint][] = []
  for (let i = 0; i < ticks.length; i += 2) if (ticks[i + 1] > ticks[i]) intervals.push([ticks[i], ticks[i + 1]])
  intervals.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
  let sum = 0n
  let until: bigint | null = null
  for (const [from, to] of intervals) {
    if (until === null || from > until) sum += to - from
    else if (to > until) sum += to - until
    else continue
    until = to
  }
  return sum
}
