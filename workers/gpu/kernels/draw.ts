// From logits to tokens, for every row of a decode step at once. The rule is `drawToken`'s (policy/sampling.ts), which is
// this kernel's plain reference: the inverse of the cumulative distribution in the order of token ids.

import { type Kernel, specialise } from '../kernel.ts'
import source from './draw.wgsl?raw'
import choose from './drawChoose.wgsl?raw'
import minP from './drawMinP.wgsl?raw'
import noise from './drawNoise.wgsl?raw'
import rule from './drawRule.wgsl?raw'
import span from './drawSpan.wgsl?raw'
import survey from './drawSurvey.wgsl?raw'
import truncate from './drawTruncate.wgsl?raw'
import slotText from './slot.wgsl?raw'

export interface DrawSpec {
  vocabulary: number
  /** Columns of a row of logits in memory; a multiple of 4. */
  stride: number
  /** False where neither top-k nor top-p is on (`ranks`): the text is shorter. */
  ranks?: boolean
}

export interface DrawRule {
  temperature: number
  topP: number
  /** 0 or less: off. */
  topK: number
  minP: number
  repetitionPenalty: number
}

export const MAX_STOP_TOKENS = 16

/** u32 words of one slot: token, length, limit, open, key0, key1 and two unused. */
export const SLOT_WORDS = 8

/** u32 words of the rule's uniform buffer. */
export const RULE_WORDS = 8 + MAX_STOP_TOKENS

/** `drawn` holds this for a row whose slot is closed, */
export const NOTHING_DRAWN = 0xffffffff
/** and this where the logits were not finite; the slot is closed and otherwise left alone. */
export const LOGITS_NOT_FINITE = 0xfffffffe

/** u32 words of one slot's row of `seen`. */
export function seenWords(vocabulary: number): number {
  return Math.ceil(vocabulary / 32)
}

/**
 * Bound in this order:
 * logits f32 [B, stride], finite; rows vec2u [B] (slot, unused), no slot twice; the rule (`packRule`);
 * slots u32 [slots, SLOT_WORDS]; seen u32 [slots, seenWords], a bit per token of the sequence;
 * drawn vec4u [B] = token, log-probability and entropy as f32 bits (as in `Draw` of policy/sampling.ts), open afterwards.
 *
 * Truncation orders tokens by score (the logit after the penalty), equal ones by id, the lower first: top-k keeps the first k,
 * top-p of these the first that together weigh p of them, min-p of these what weighs minP of the best. How threads and
 * histograms find the cut changes none of it.
 *
 * An open slot takes the token, grows by one and closes at a stop token or at its limit; the uniform is that of its key and
 * its length before. Log-probability and entropy differ from the float64 reference by at most 2e-5, the borders of the
 * cumulative distribution by at most 1e-5. Dispatch B workgroups.
 */
export function draw({ vocabulary, stride, ranks = true }: DrawSpec): Kernel {
  if (stride % 4 !== 0 || stride < vocabulary || vocabulary >= 2 ** 18) {
    throw new Error(`internal: draw wants a stride of whole quads and at most 2¹⁸ tokens, got ${vocabulary}, ${stride}`)
  }
  const cut = ranks
    ? [span, truncate]
    : ['fn truncate(thread: u32, whole: Statistics) {\n  raiseToMinP(whole.best);\n}']
  return {
    name: 'draw',
    code: specialise([slotText, rule, source, survey, minP, ...cut, noise, choose].join('\n'), {
      THREADS: vocabulary > 2048 ? 256 : 64,
      VOCABULARY: vocabulary,
      STRIDE_QUADS: stride / 4,
      SEEN_WORDS: seenWords(vocabulary),
    }),
    bindings: ['read', 'read', 'uniform', 'write', 'write', 'write'],
  }
}

/** Whether a rule needs the tokens in the order of their weight. */
export function ranks({ topK, topP }: Pick<DrawRule, 'topK' | 'topP'>): boolean {
  return topK > 0 || topP < 1
}

/** The uniform buffer of `draw`. @throws RangeError when there are more stop tokens than it holds */
export function packRule(rule: DrawRule, stopTokens: number[]): Uint32Array<ArrayBuffer> {
  if (stopTokens.length > MAX_STOP_TOKENS) {
    throw new RangeError(
      `Sampling stops at one of at most ${MAX_STOP_TOKENS} tokens; got ${stopTokens.length}. Name fewer stop tokens.`,
    )
  }
  const words = new Uint32Array(RULE_WORDS)
  const floats = new Float32Array(words.buffer)
  floats[0] = rule.temperature > 0 ? 1 / rule.temperature : 1
  floats[1] = rule.topP
  words[2] = Math.max(0, rule.topK)
  floats[3] = rule.minP
  floats[4] = rule.repetitionPenalty
  floats[5] = 1 / rule.repetitionPenalty
  words[6] = rule.temperature > 0 ? 0 : 1
  words[7] = stopTokens.length
  words.set(stopTokens, 8)
  return words
}
