// Queries and keys of packed rows on their way into attention, and their gradients on the way back. The position of a
// token is its distance from the first of its row.

import { declare, type Kernel, specialise } from '../kernel.ts'
import text from './rope.wgsl?raw'
import backwardText from './ropeBackward.wgsl?raw'
import backwardNormedText from './ropeBackwardNormed.wgsl?raw'
import backwardUnnormedText from './ropeBackwardUnnormed.wgsl?raw'
import { normBindings, type RopeShape, ropeConstants, ropeText } from './ropeHead.ts'
import widthsText from './ropeWidths.wgsl?raw'

/**
 * Binds: qkv [M, stride], spans [M] of (first token of its row, one past the last; equal for padding), turns
 * [positions, d/2] of (cos, sin), with `norm` queryNorm [d] and keyNorm [d]; written: qk [M, (H + K)·d], queries times
 * 1/√d, zeros for padding.
 */
export function rope(shape: RopeShape): Kernel {
  const { text: declarations, bindings } = declare([
    ['qkv', 'read', 'array<vec4f>'],
    ['spans', 'read', 'array<vec2u>'],
    ['turns', 'read', 'array<vec4f>'],
    ...normBindings(shape),
    ['qk', 'write', 'array<vec4f>'],
  ])
  const source = [declarations, ropeText(shape), text].join('\n')
  return { name: 'rope.forward', code: specialise(source, ropeConstants(shape)), bindings }
}

export function ropeWorkgroups(shape: RopeShape, tokens: number): [number, number] {
  return [Math.ceil(((shape.heads + shape.kvHeads) * shape.headWidth) / 8 / 64), tokens]
}

/**
 * Writes the columns of queries and keys and the padding columns of dqkv, and leaves those of values.
 * Binds: dqk [M, (H + K)·d], spans [M], turns [positions, d/2], with `norm` qkv [M, stride], qk [M, (H + K)·d] as `rope`
 * left it, queryNorm [d] and keyNorm [d]; written: dqkv [M, stride].
 */
export function ropeBackward(shape: RopeShape): Kernel {
  const { norm } = shape
  const { text: declarations, bindings } = declare([
    ['dqk', 'read', 'array<vec4f>'],
    ['spans', 'read', 'array<vec2u>'],
    ['turns', 'read', 'array<vec4f>'],
    ...(norm
      ? ([
          ['qkv', 'read', 'array<vec4f>'],
          ['qk', 'read', 'array<vec4f>'],
        ] as const)
      : []),
    ...normBindings(shape),
    ['dqkv', 'write', 'array<vec4f>'],
  ])
  const head = norm ? `${ropeText(shape)}\n${backwardNormedText}` : `${widthsText}\n${backwardUnnormedText}`
  const code = specialise([declarations, head, backwardText].join('\n'), ropeConstants(shape))
  return { name: 'rope.backward', code, bindings }
}

export function ropeBackwardWorkgroups(shape: RopeShape, tokens: number): [number, number] {
  const { heads, kvHeads, headWidth, stride } = shape
  const padding = (stride - (heads + 2 * kvHeads) * headWidth) / 4
  return [Math.ceil((((heads + kvHeads) * headWidth) / 8 + padding) / 64), tokens]
}
