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

function floatLiteral(value: number): string {
  const text = Math.fround(value).toString()
  return /[.e]/.test(text) ? `${text}f` : `${text}.0f`
}

const STAGE_COMPUTE = 4

/** Explicit layouts: WebGPU's automatic ones leave out a binding that the text does not use. */
export class Pipelines {
  static readonly #known = new WeakMap<GPUDevice, Pipelines>()
  readonly #byCode = new Map<string, { pipeline: GPUComputePipeline; layout: GPUBindGroupLayout }>()

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

  get({ name, code, bindings }: Kernel): { pipeline: GPUComputePipeline; layout: GPUBindGroupLayout } {
    let made = this.#byCode.get(code)
    if (!made) {
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
      const pipeline = device.createComputePipeline({
        label: name,
        layout: device.createPipelineLayout({ bindGroupLayouts: [layout] }),
        compute: { module: device.createShaderModule({ label: name, code }), entryPoint: 'main' },
      })
      made = { pipeline, layout }
      this.#byCode.set(code, made)
    }
    return made
  }
}
