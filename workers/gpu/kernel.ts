// A compute kernel as data: its WGSL, what it binds and how many workgroups it wants. Pipelines are made once per device
// and text.

/** How a binding is declared in WGSL: `var<storage, read>`, `var<storage, read_write>` or `var<uniform>`. */
export type Binding = 'read' | 'write' | 'uniform'

export interface Kernel {
  /** Names it in the profiler; kernels of one family share the part before the dot. */
  name: string
  /** Entry point `main`; everything bound stands in group 0. */
  code: string
  /** In the order of `@binding`. */
  bindings: Binding[]
}

export type Constants = Record<string, number | boolean | { float: number }>

/** Puts module constants in front of a kernel's text: integers become `u32`, `{ float }` becomes `f32`. */
export function specialise(source: string, constants: Constants, directives: string[] = []): string {
  const lines = Object.entries(constants).map(([name, value]) => {
    if (typeof value === 'boolean') return `const ${name}: bool = ${value};`
    if (typeof value === 'object') return `const ${name}: f32 = ${floatLiteral(value.float)};`
    return `const ${name}: u32 = ${value}u;`
  })
  return [...directives, ...lines, source].join('\n')
}

/** Name, access and WGSL type of one storage buffer. */
export type Declared = readonly [name: string, access: 'read' | 'write', type: string]

/** Bindings 0, 1, 2 … of group 0 in the order given, as WGSL and for the layout. */
export function declare(list: Declared[]): { text: string; bindings: Binding[] } {
  const text = list
    .map(([name, access, type], i) => {
      const mode = access === 'read' ? 'read' : 'read_write'
      return `@group(0) @binding(${i}) var<storage, ${mode}> ${name}: ${type};`
    })
    .join('\n')
  return { text, bindings: list.map(([, access]) => access) }
}

/** A number as WGSL writes an f32. */
export function floatLiteral(value: number): string {
  const text = Math.fround(value).toString()
  return /[.e]/.test(text) ? `${text}f` : `${text}.0f`
}

const STAGE_COMPUTE = 4

export interface Compiled {
  pipeline: GPUComputePipeline
  layout: GPUBindGroupLayout
}

/** Explicit layouts: WebGPU's automatic ones leave out a binding that the text does not use. */
export class Pipelines {
  static readonly #known = new WeakMap<GPUDevice, Pipelines>()
  readonly #byCode = new Map<string, Compiled>()

  constructor(readonly device: GPUDevice) {}

  /** The pipelines of a device, shared by everything that computes on it. */
  static of(device: GPUDevice): Pipelines {
    let pipelines = Pipelines.#known.get(device)
    if (!pipelines) {
      pipelines = new Pipelines(device)
      Pipelines.#known.set(device, pipelines)
    }
    return pipelines
  }

  get(kernel: Kernel): Compiled {
    let made = this.#byCode.get(kernel.code)
    if (!made) {
      const { layout, descriptor } = this.#describe(kernel)
      made = { pipeline: this.device.createComputePipeline(descriptor), layout }
      this.#byCode.set(kernel.code, made)
    }
    return made
  }

  /** Compiles beside other work, for a later `get`. @throws what the device says of the text */
  async prepare(kernel: Kernel): Promise<void> {
    if (this.#byCode.has(kernel.code)) return
    // The promise below says what is wrong; the scope keeps the device from saying it again.
    this.device.pushErrorScope('validation')
    const { layout, descriptor } = this.#describe(kernel)
    const made = this.device.createComputePipelineAsync(descriptor)
    this.device.popErrorScope()
    this.#byCode.set(kernel.code, { pipeline: await made, layout })
  }

  #describe({ name, code, bindings }: Kernel) {
    const { device } = this
    const layout = device.createBindGroupLayout({
      entries: bindings.map((binding, index) => ({
        binding: index,
        visibility: STAGE_COMPUTE,
        buffer: {
          type: binding === 'uniform' ? 'uniform' : binding === 'read' ? 'read-only-storage' : 'storage',
        },
      })),
    })
    const descriptor: GPUComputePipelineDescriptor = {
      label: name,
      layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
      compute: { module: device.createShaderModule({ label: name, code }), entryPoint: 'main' },
    }
    return { layout, descriptor }
  }
}
