// Rules that tie fields of a target together, which its JSON Schema does not hold: each with where the target states it and
// an example that breaks it. They look at a compiled table, so they hold for what a file kept in the target's own words too.
// `prime-rl-configs` stands for packages/prime-rl-configs/src/prime_rl.

import type { Table } from '../../configs/path.ts'
import { BATCH_RULES } from './rules/batches.ts'
import { COMPONENT_RULES } from './rules/components.ts'
import { HOSTED_RULES } from './rules/hosted.ts'
import { LEARNING_RULES } from './rules/learning.ts'
import { MACHINE_RULES } from './rules/machines.ts'
import type { Broken, Rule } from './rules/rule.ts'
import type { TargetId } from './target.ts'

export const RULES: Rule[] = [...BATCH_RULES, ...LEARNING_RULES, ...MACHINE_RULES, ...COMPONENT_RULES, ...HOSTED_RULES]

export function brokenRules(table: Table, target: TargetId): Broken[] {
  return RULES.filter(({ targets }) => targets.includes(target)).flatMap((rule) => rule.check(table) ?? [])
}
