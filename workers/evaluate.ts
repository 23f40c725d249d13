// Asks the policy held-out questions: the same ones with the same noise every time, so that only learning moves the
// result. Touches nothing that training reads: other tasks, other noise, no gradient.

import type { Metrics } from './protocol.ts'
import { evaluationMetrics } from './rl/stepMetrics.ts'
import type { Question } from './step/answer.ts'
import { setUp } from './step/ask.ts'
import { type ConverseControl, converse } from './step/converse.ts'
import { forget, score } from './step/judge.ts'
import type { Run } from './step/run.ts'

export interface Evaluation {
  questions: Question[]
  metrics: Metrics
}

export async function evaluate(run: Run, control: ConverseControl = {}): Promise<Evaluation> {
  const { config, environment } = run
  const { num_examples, rollouts_per_example } = config.eval
  const positions = Array.from({ length: numberOfTasks(run, num_examples) }, (_, position) => position)
  const tasks = await environment.draw('eval', positions, config.browser.environment_deadline_ms)

  const questions = await setUp(
    run,
    'eval',
    tasks.map((task) => ({ number: task.position, task })),
    rollouts_per_example,
  )
  try {
    await converse(run, questions, evaluationSampling(run), control)
  } catch (error) {
    await forget(run, questions)
    throw error
  }
  await score(run, questions)
  const groups = questions.map(({ answers }) => answers.map((answer) => answer.toRollout()))
  return { questions, metrics: evaluationMetrics(groups) }
}

/** Before the first step, every `eval.interval` steps, and after the last. */
export function evaluationIsDue(
  { eval: { interval, skip_first_step }, max_steps }: Run['config'],
  step: number,
): boolean {
  if (interval === null) return false
  if (step === 0) return !skip_first_step
  return step % interval === 0 || step === max_steps
}

function evaluationSampling({ config }: Run) {
  const { sampling, eval: own } = config
  return {
    purpose: 'eval',
    adapter: 'live',
    temperature: own.temperature ?? sampling.temperature,
    topP: own.top_p ?? sampling.top_p,
    topK: own.top_k ?? sampling.top_k,
    minP: own.min_p ?? sampling.min_p,
    maxTokens: own.max_tokens ?? sampling.max_tokens,
  } as const
}

// A held-out set that is smaller than what was asked for is asked once, not twice.
function numberOfTasks({ environments }: Run, wanted: number): number {
  const sizes = environments.map(({ evalSize }) => evalSize)
  if (sizes.some((size) => size === null)) return wanted
  return Math.min(
    wanted,
    sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0),
  )
}
