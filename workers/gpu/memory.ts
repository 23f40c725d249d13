// Every byte that compiled plans hold on the GPU, under the name of its owner: weights, cache, activations, optimizer.

export type Owner = 'weights' | 'adapters' | 'optimizer' | 'cache' | 'activations' | 'tables' | 'readback'

export class GpuMemory {
  readonly #owners = new Map<GPUBuffer, Owner>()
  #bytes = 0
  #peak = 0

  constructor(readonly device: GPUDevice) {}

  /** A zeroed storage buffer; sizes are rounded up to 16 bytes. */
  storage(owner: Owner, bytes: number, label?: string): GPUBuffer {
    return this.#create(owner, bytes, GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST, label)
  }

  uniform(owner: Owner, bytes: number, label?: string): GPUBuffer {
    return this.#create(owner, bytes, GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST, label)
  }

  staging(bytes: number, label?: string): GPUBuffer {
    return this.#create('readback', bytes, GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST, label)
  }

  free(...buffers: (GPUBuffer | null | undefined)[]): void {
    for (const buffer of buffers) {
      if (!buffer || !this.#owners.delete(buffer)) continue
      this.#bytes -= buffer.size
      buffer.destroy()
    }
  }

  freeAll(): void {
    this.free(...this.#owners.keys())
  }

  owned(...owners: Owner[]): GPUBuffer[] {
    return [...this.#owners].filter(([, owner]) => owners.includes(owner)).map(([buffer]) => buffer)
  }

  get bytes(): number {
    return this.#bytes
  }

  get peakBytes(): number {
    return this.#peak
  }

  get buffers(): number {
    return this.#owners.size
  }

  byOwner(): Record<string, number> {
    const result: Record<string, number> = {}
    for (const [buffer, owner] of this.#owners) result[owner] = (result[owner] ?? 0) + buffer.size
    return result
  }

  /**
   * @throws RangeError naming the owner when one buffer is larger than the device binds
   */
  #create(owner: Owner, bytes: number, usage: number, label?: string): GPUBuffer {
    const size = Math.max(16, Math.ceil(bytes / 16) * 16)
    const { maxBufferSize, maxStorageBufferBindingSize } = this.device.limits
    if (size > Math.min(maxBufferSize, maxStorageBufferBindingSize)) {
      throw new RangeError(
        `Asked the GPU for one buffer of ${size} bytes (${owner}${label ? `, ${label}` : ''}); this device binds at most ` +
          `${Math.min(maxBufferSize, maxStorageBufferBindingSize)}. Take a smaller base_dtype, fewer slots or shorter sequences.`,
      )
    }
    const buffer = this.device.createBuffer({ label: label ?? owner, size, usage })
    this.#owners.set(buffer, owner)
    this.#bytes += size
    this.#peak = Math.max(this.#peak, this.#bytes)
    return buffer
  }
}
