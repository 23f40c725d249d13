// The tokens that could have stood where one was drawn. The plain reference is `likeliest` of policy/sampling.ts.

import { type Kernel, specialise } from '../kernel.ts'
import source from './alternatives.wgsl?raw'
import { type DrawSpec, NOTHING_DRAWN } from './draw.ts'
import rule from './drawRule.wgsl?raw'

/** Named at one position, at most. */
export const MOST_ALTERNATIVES = 20

export interface AlternativesSpec extends Pick<DrawSpec, 'vocabulary' | 'stride'> {
  count: number
}

/**
 * Bound in this order: logits f32 [B, stride]; the rule (`packRule`); drawn vec4u [B], as `draw` left it; named vec2u
 * [B, count] = token and its log softmax(logits / T) as f32 bits, likeliest first, equal ones by their ids; `NOTHING_DRAWN`
 * where the vocabulary has no further token. A row that drew nothing is left as it is. The drawn token's log-probability
 * is the one that `draw` gave it; the others differ from the float64 reference by at most 3e-5. Dispatch B workgroups.
 */
export function alternatives({ vocabulary, stride, count }: AlternativesSpec): Kernel {
  return {
    name: 'draw.alternatives',
    code: specialise([rule, source].join('\n'), {
      THREADS: vocabulary > 2048 ? 256 : 64,
      VOCABULARY: vocabulary,
      STRIDE_QUADS: stride / 4,
      COUNT: count,
    }),
    bindings: ['read', 'uniform', 'read', 'write'],
  }
}

/** One row's list out of `named`, from word `at` on. */
export function readAlternatives(
  words: Uint32Array,
  floats: Float32Array,
  at: number,
  count: number,
): { token: number; logp: number }[] {
  const list = Array.from({ length: count }, (_, i) => ({ token: words[at + 2 * i], logp: floats[at + 2 * i + 1] }))
  return list.filter(({ token }) => token !== NOTHING_DRAWN)
}
