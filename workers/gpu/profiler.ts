// GPU time by kernel name, from timestamp queries where the device has them. While it is active every dispatch is a pass
// of its own, which costs time itself: shares are right, sums are a little high.

const QUERIES = 4096

export interface KernelTime {
  name: string
  dispatches: number
  /** Milliseconds on the GPU. */
  milliseconds: number
}

export class Profiler {
  active = false
  readonly #set: GPUQuerySet | null
  readonly #resolved: GPUBuffer | null
  readonly #staging: GPUBuffer | null
  #names: string[] = []
  readonly #times = new Map<string, { dispatches: number; nanoseconds: number }>()

  constructor(readonly device: GPUDevice) {
    const offered = device.features.has('timestamp-query')
    this.#set = offered ? device.createQuerySet({ type: 'timestamp', count: QUERIES }) : null
    this.#resolved = offered
      ? device.createBuffer({ size: QUERIES * 8, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC })
      : null
    this.#staging = offered
      ? device.createBuffer({ size: QUERIES * 8, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST })
      : null
  }

  get offered(): boolean {
    return this.#set !== null
  }

  beginPass(encoder: GPUCommandEncoder, name: string): GPUComputePassEncoder {
    const first = this.#names.length * 2
    if (!this.#set || first + 2 > QUERIES) return encoder.beginComputePass()
    this.#names.push(name)
    return encoder.beginComputePass({
      timestampWrites: { querySet: this.#set, beginningOfPassWriteIndex: first, endOfPassWriteIndex: first + 1 },
    })
  }

  resolve(encoder: GPUCommandEncoder): void {
    if (this.#names.length === 0) return
    encoder.resolveQuerySet(this.#set!, 0, this.#names.length * 2, this.#resolved!, 0)
    encoder.copyBufferToBuffer(this.#resolved!, 0, this.#staging!, 0, this.#names.length * 16)
  }

  /** Takes in what was resolved since the last call; waits for the GPU. */
  async collect(): Promise<void> {
    if (this.#names.length === 0) return
    const names = this.#names
    this.#names = []
    await this.#staging!.mapAsync(GPUMapMode.READ, 0, names.length * 16)
    const ticks = new BigUint64Array(this.#staging!.getMappedRange(0, names.length * 16).slice(0))
    this.#staging!.unmap()
    names.forEach((name, i) => {
      const entry = this.#times.get(name) ?? { dispatches: 0, nanoseconds: 0 }
      entry.dispatches++
      entry.nanoseconds += Number(ticks[2 * i + 1] - ticks[2 * i])
      this.#times.set(name, entry)
    })
  }

  /** Longest first. */
  report(): KernelTime[] {
    return [...this.#times]
      .map(([name, { dispatches, nanoseconds }]) => ({ name, dispatches, milliseconds: nanoseconds / 1e6 }))
      .sort((a, b) => b.milliseconds - a.milliseconds)
  }

  reset(): void {
    this.#times.clear()
  }

  dispose(): void {
    this.#set?.destroy()
    this.#resolved?.destroy()
    this.#staging?.destroy()
  }
}
