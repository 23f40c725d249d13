// Everything that the compiler writes, read by the programs it is written for; run by `npm run test:interop`, which brings
// them. Without them every test here is skipped, and says so.

import { spawnSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { runConfig } from '../../configs/schema.ts'
import { tableToToml } from '../../configs/write.ts'
import { compileConfig } from '../../server/compile/compile.ts'
import { RULES } from '../../server/compile/rules.ts'
import type { TargetId } from '../../server/compile/target.ts'
import { verdicts } from './judge.ts'
import { record } from './judgements.ts'

const oracles: Partial<Record<TargetId, { python: string }>> = JSON.parse(process.env.ROLLOUT_LAB_ORACLES ?? '{}')
const SCRIPTS: Partial<Record<TargetId, string>> = { hosted: 'hosted.py', 'prime-rl': 'prime_rl.py' }

/** For each text null, or why the program refuses it. */
function judge(target: TargetId, texts: string[]): (string | null)[] {
  const script = new URL(`./oracle/${SCRIPTS[target]}`, import.meta.url).pathname
  const { stdout, stderr, status } = spawnSync(oracles[target]!.python, [script], {
    input: JSON.stringify(texts),
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`${script} failed: ${stderr.slice(-2000)}`)
  return JSON.parse(stdout)
}

describe.each(['prime-rl', 'hosted'] as const)('%s itself', (target) => {
  const there = test.skipIf(!oracles[target])

  there('takes every recipe and block that was compiled for it, as it stands and with what it leaves open', () => {
    const compiled = [...verdicts(), ...verdicts(true)].filter(
      (verdict) => verdict.target === target && verdict.text !== null,
    )
    expect(compiled.length).toBeGreaterThan(0)
    const refused = judge(
      target,
      compiled.map(({ text }) => text!),
    )
    record(
      target,
      compiled.map(({ text }, i) => [text!, refused[i]]),
    )
    expect(compiled.flatMap(({ file }, i) => (refused[i] === null ? [] : [`${file}: ${refused[i]}`]))).toEqual([])
  })

  there('takes a config with everything in it that goes along', () => {
    const config = runConfig.parse({
      name: 'all-of-it',
      model: 'Qwen/Qwen3-0.6B',
      env: [
        { id: 'primeintellect/reverse-text', args: { n: 3 }, ratio: 2 },
        { id: 'owner/other@0.2.0', name: 'other', ratio: 1 },
      ],
      sampling: { temp_scheduler: target === 'hosted' ? { start: 1, end: 0.7, total_steps: 50 } : null, stop: ['x'] },
      eval: { interval: 10, top_p: 0.9, env: [{ id: 'owner/other', num_examples: 20, rollouts_per_example: 2 }] },
      checkpointing: { save_every_n_steps: 25, keep_n_checkpoints: 3 },
      buffer: { online_difficulty_filtering: true },
      wandb: { project: 'p', name: 'n', entity: 'e' },
      oversampling_factor: 2,
    })
    const { table, findings } = compileConfig(config, target)
    expect(findings.filter(({ act }) => act === 'refuse')).toEqual([])
    expect(judge(target, [tableToToml(table)])).toEqual([null])
  })

  there.each(RULES.filter(({ targets }) => targets.includes(target)).map((rule) => [rule.id, rule] as const))(
    'refuses the example of %s',
    (_, rule) => {
      expect(judge(target, [tableToToml(rule.example)])[0]).not.toBeNull()
    },
  )
})
