// Advice for a run that is allowed but would not do what its author expects, or that the documents advise against.

import type { Check } from './checks.ts'
import type { RunConfig } from './schema.ts'
import { numberText } from './sentences.ts'

const LOSS_OF: Record<string, RunConfig['loss']['type']> = {
  dppo_mask_low: 'default',
  dppo_mask_high: 'default',
  ipo_threshold: 'ipo',
  ratio_type: 'ratio_mask',
  token_mask_low: 'ratio_mask',
  token_mask_high: 'ratio_mask',
  geo_mask_low: 'ratio_mask',
  geo_mask_high: 'ratio_mask',
  sequence_mask_low: 'ratio_mask',
  sequence_mask_high: 'ratio_mask',
  sequence_clip_high: 'ratio_mask',
  teacher_tau: 'ratio_mask',
  clip_low: 'ppo',
  clip_high: 'ppo',
}

export function adviseRun(config: RunConfig, given: (path: string) => boolean): Check[] {
  return [...switches(config, given), ...(config.type === 'sft' ? unusedBySft(given) : []), ...learningRate(config)]
}

// A knob set in a table that is switched off does nothing, which its author should hear.
function switches(config: RunConfig, given: (path: string) => boolean): Check[] {
  const found: Check[] = []
  const idle = (path: string, because: string) => {
    if (given(path)) found.push({ path, sentence: `${path} does nothing ${because}.`, kind: 'advice', warning: true })
  }
  for (const [key, type] of Object.entries(LOSS_OF)) {
    if (config.loss.type !== type)
      idle(`loss.${key}`, `with loss.type = "${config.loss.type}"; it belongs to "${type}"`)
  }
  if (!config.kl_penalty.enabled) {
    for (const key of ['beta', 'target_kl']) idle(`kl_penalty.${key}`, 'until kl_penalty.enabled = true')
  }
  if (config.kl_penalty.enabled && !config.lora.enabled) {
    const path = 'kl_penalty.enabled'
    const sentence = `${path} needs lora.enabled here: the reference is the policy without its adapters.`
    found.push({ path, or: 'lora.enabled', sentence, kind: 'advice', warning: true })
  }
  if (!config.difficulty_filter.enabled) {
    for (const key of ['min_reward_variance', 'min_reward', 'max_reward']) {
      idle(`difficulty_filter.${key}`, 'until difficulty_filter.enabled = true')
    }
  }
  if (!config.lora.enabled) {
    for (const key of ['r', 'alpha', 'dropout', 'target_modules']) idle(`lora.${key}`, 'while lora.enabled = false')
  }
  return found
}

const ABOUT_ROLLOUTS = [
  'rollouts_per_example',
  'sampling',
  'advantage',
  'loss',
  'kl_penalty',
  'difficulty_filter',
  'buffer',
  'curriculum',
]

function unusedBySft(given: (path: string) => boolean): Check[] {
  return ABOUT_ROLLOUTS.filter(given).map((path) => ({
    path,
    sentence: `${path} is about rollouts, and type = "sft" has none; it does nothing.`,
    kind: 'advice',
    warning: true,
  }))
}

/** Parameters of a model, from its name; null where the name does not tell. */
function parametersOf(model: string): number | null {
  if (/lab-nano/.test(model)) return 2e5
  if (/lab-tiny/.test(model)) return 5e6
  const size = /(\d+(?:\.\d+)?)\s*([bm])\b/i.exec(model)
  return size ? Number(size[1]) * (size[2].toLowerCase() === 'b' ? 1e9 : 1e6) : null
}

// Small policies need large steps: 5 M parameters learn at 1e-3 in the recipes, where the documents' billions take 1e-5.
function learningRate(config: RunConfig): Check[] {
  const size = parametersOf(config.model)
  const rate = config.learning_rate
  if (size === null || !config.lora.enabled) return []
  const [low, high] = size < 5e7 ? [3e-4, 3e-3] : size < 1e9 ? [1e-5, 5e-4] : [1e-6, 2e-4]
  const name = config.model
  if (rate > high) {
    return [
      {
        path: 'learning_rate',
        sentence: `learning_rate = ${numberText(rate)} is high for ${name}: beyond ${numberText(high)} a run tends to collapse instead of learning faster.`,
        kind: 'advice',
        warning: true,
      },
    ]
  }
  if (rate < low) {
    return [
      {
        path: 'learning_rate',
        sentence: `learning_rate = ${numberText(rate)} is low for ${name}: adapters of a policy of this size learn at ${numberText(low)} to ${numberText(high)}.`,
        kind: 'advice',
      },
    ]
  }
  return []
}
