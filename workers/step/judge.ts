// Asks the environment what the answers are worth. A reward that could not be had is null with an error beside it, never
// a zero: a failed rollout is data.

import type { Question } from './answer.ts'
import type { Run } from './run.ts'

export async function score(run: Run, questions: Question[]): Promise<void> {
  const results = await run.environment.score(
    questions.map(({ answers }) => ({ handles: answers.map(({ handle }) => handle) })),
    run.config.browser.environment_deadline_ms,
  )
  questions.forEach(({ answers }, q) => {
    answers.forEach((answer, i) => {
      const { reward, metrics, error } = results[q][i]
      answer.metrics = metrics
      if (error !== null) answer.fail(answer.error ?? error)
      else if (reward === null || !Number.isFinite(reward)) {
        answer.fail(`${answer.task.environment} scored an answer ${reward}; expected a finite number.`)
      } else if (answer.error === null) answer.reward = reward
    })
  })
}

/** Forgets answers that will not be scored. */
export async function forget(run: Run, questions: Question[]): Promise<void> {
  await run.environment.release(questions.flatMap(({ answers }) => answers.map(({ handle }) => handle)))
}
