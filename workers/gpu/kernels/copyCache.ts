// A prompt's keys and values, computed once in one slot, for the other slots of its group.

import { declare, type Kernel, specialise } from '../kernel.ts'
import text from './copyCache.wgsl?raw'

export interface CopyCacheShape {
  kvHeads: number
  headWidth: number
  /** S, positions per slot. */
  positions: number
}

/**
 * Copies positions [first, first + count) of one slot to the same positions of another. No slot is both read and written.
 * Binds, written: keys and values [slots, S, K·d]; read: copies, one (from slot, to slot, first, count) each.
 */
export function copyCache({ kvHeads, headWidth, positions }: CopyCacheShape): Kernel {
  const { text: declarations, bindings } = declare([
    ['keys', 'write', 'array<vec4f>'],
    ['values', 'write', 'array<vec4f>'],
    ['copies', 'read', 'array<vec4u>'],
  ])
  const code = specialise(`${declarations}\n${text}`, {
    ROW_VECTORS: (kvHeads * headWidth) / 4,
    POSITIONS: positions,
  })
  return { name: 'cache.copy', code, bindings }
}

/** `count` is the largest of the copies; any number of workgroups along the first axis is right. */
export function copyCacheWorkgroups(shape: CopyCacheShape, copies: number, count: number): [number, number] {
  return [Math.max(1, Math.ceil((count * shape.kvHeads * shape.headWidth) / 4 / 256)), copies]
}
