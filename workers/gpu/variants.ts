// Kernels come in variants: the plain one, which every device runs, and others for what a device offers beside. Which one
// runs for which shape is measured once, at a run's first start, and kept with the run.

export const VARIANTS = ['plain', 'subgroups', 'f16'] as const
export type Variant = (typeof VARIANTS)[number]

/** By 'kernel/shape'; what is not named is plain. */
export type VariantChoices = Record<string, Variant>

export interface Offered {
  /** Neighbouring threads that subgroup shuffles surely reach, a power of two; 0 where there are no subgroups. */
  lanes: number
  /** Numbers of half precision can be read from buffers. */
  f16: boolean
}

const MOST_LANES = 32
const FEWEST_LANES = 4

/** A kernel that shuffles among so many threads is right for every size that the device's subgroups may take. */
export function offeredBy({ features, adapterInfo }: Pick<GPUDevice, 'features' | 'adapterInfo'>): Offered {
  const smallest = features.has('subgroups') ? (adapterInfo?.subgroupMinSize ?? 0) : 0
  const lanes = 2 ** Math.floor(Math.log2(Math.min(smallest, MOST_LANES)))
  return { lanes: lanes >= FEWEST_LANES ? lanes : 0, f16: features.has('shader-f16') }
}

export class Variants {
  /** Every kernel that was asked for, with the variant that it has beside the plain one. */
  readonly asked = new Map<string, Exclude<Variant, 'plain'>>()

  constructor(
    readonly offered: Offered,
    readonly choices: VariantChoices,
  ) {}

  /** For a kernel that may reduce by shuffles: threads that do; 0: the plain one. */
  lanes(key: string): number {
    this.asked.set(key, 'subgroups')
    return this.choices[key] === 'subgroups' ? this.offered.lanes : 0
  }

  /** For a kernel that reads packed f16: whether it reads it as such. */
  half(key: string): boolean {
    this.asked.set(key, 'f16')
    return this.choices[key] === 'f16' && this.offered.f16
  }
}
