// Finishes a sum that several workgroups made in parts.

import { type Kernel, specialise } from '../kernel.ts'
import source from './sumParts.wgsl?raw'

const ADDENDS = { none: 0, residual: 1, bias: 2, result: 3 } as const

export interface SumPartsSpec {
  name: string
  /** 0: as many as lie in what is bound. */
  parts: number
  /** Numbers in one part; a multiple of 4. */
  size: number
  /** What is added: nothing, a residual of the same size, a bias per column, or what the result held before. */
  addend: keyof typeof ADDENDS
  /** Of a bias. */
  columns?: number
}

/** Bound in this order: parts, addend (any buffer where there is none), result. */
export function sumParts({ name, parts, size, addend, columns = 4 }: SumPartsSpec): Kernel {
  const code = specialise(source, { PARTS: parts, SIZE: size, ADDEND: ADDENDS[addend], COLUMNS: columns })
  return { name, code, bindings: ['read', 'read', 'write'] }
}

export function flatWorkgroups(items: number, perGroup: number): [number, number] {
  const groups = Math.ceil(items / perGroup)
  const x = Math.min(groups, 65535)
  return [x, Math.ceil(groups / x)]
}

export function sumPartsWorkgroups({ size }: SumPartsSpec): [number, number] {
  return flatWorkgroups(size / 4, 64)
}
