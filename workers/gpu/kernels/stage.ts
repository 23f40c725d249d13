// Rearranges the flat vector of adapters for the products, and their gradients back.

import { type Kernel, specialise } from '../kernel.ts'
import source from './stage.wgsl?raw'
import { flatWorkgroups } from './sumParts.ts'

export const NOTHING = 0x7fffffff
export const SCALED = 0x80000000

/** Bound in this order: source, map [size], result [size]. */
export function stage(name: string, size: number, scale: number): Kernel {
  const code = specialise(source, { SIZE: size, SCALE: { float: scale } })
  return { name, code, bindings: ['read', 'read', 'write'] }
}

export function stageWorkgroups(size: number): [number, number] {
  return flatWorkgroups(size, 64)
}
