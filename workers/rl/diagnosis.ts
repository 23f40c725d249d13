// Reads a run's metrics as an experienced trainer would and says what is wrong, with numbers, and what to try. Each rule
// is a function of the series so far and knows nothing of how the numbers were made; its thresholds are rules of thumb
// and stand where they are used.

import { entropyCollapse, errors, identicalOutputs, lengthExplosion, noSpread, truncated } from './diagnosis/answers.ts'
import type { DiagnosisConfig, Finding, Rule } from './diagnosis/finding.ts'
import {
  baseline,
  flatNearZero,
  heldOutFalls,
  rewardDrop,
  slowLearning,
  solved,
  unstableSwings,
} from './diagnosis/reward.ts'
import { Series, type StepPoint } from './diagnosis/series.ts'
import { farFromReference, gradientSpike, manyMasked, notFinite, ratioOff } from './diagnosis/update.ts'

export type { Advice, DiagnosisConfig, Finding } from './diagnosis/finding.ts'
export type { StepPoint } from './diagnosis/series.ts'

const RULES: Rule[] = [
  notFinite,
  baseline,
  flatNearZero,
  rewardDrop,
  entropyCollapse,
  identicalOutputs,
  unstableSwings,
  lengthExplosion,
  noSpread,
  ratioOff,
  manyMasked,
  errors,
  truncated,
  gradientSpike,
  farFromReference,
  heldOutFalls,
  slowLearning,
  solved,
]

const GRAVITY: Finding['severity'][] = ['problem', 'warning', 'note']

/** What stands out in the steps so far, gravest first. */
export function diagnose(steps: readonly StepPoint[], config: DiagnosisConfig): Finding[] {
  const run = new Series(steps)
  const findings = RULES.flatMap((rule) => rule(run, config) ?? [])
  return findings.sort((a, b) => GRAVITY.indexOf(a.severity) - GRAVITY.indexOf(b.severity))
}
