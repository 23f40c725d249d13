// What the verbs of a step came to, in a few words each, from the step's metrics. Shown at the lines of step.ts.

import { number, plural } from '../format.ts'
import type { StepPoint } from '../state/run.svelte.ts'

/** By verb; a verb whose number was not reported is left out. */
export function stepNumbers({ metrics }: StepPoint): Record<string, string> {
  const said: Record<string, string> = {}
  const say = (verb: string, key: string, words: (value: number) => string) => {
    const value = metrics[key]
    if (value !== undefined) said[verb] = words(value)
  }
  const tasks = metrics['progress/tasks'] ?? 0
  say('ask', 'progress/tasks', (value) => plural(value, 'prompt'))
  say('answer', 'progress/output_tokens', (value) => {
    const answers = metrics['progress/rollouts']
    return `${answers === undefined ? '' : `${plural(answers, 'answer')}, `}${plural(value, 'token')}`
  })
  say('judge', 'reward/mean', (value) => `mean reward ${number(value)}`)
  say('compare', 'group/alike', (value) => `${Math.round(value * tasks)} of ${plural(tasks, 'group')} alike`)
  say('admit', 'batch/admission_rate', (value) => (value === 1 ? 'all groups' : `${number(100 * value)} % of groups`))
  say('leaveOut', 'batch/rollouts', (value) => plural(value, 'row'))
  say('logprobs', 'batch/loss_tokens', (value) => plural(value, 'token'))
  say('slopes', 'is_masked/mean', (value) => (value === 0 ? 'none masked' : `${number(100 * value)} % masked`))
  say('backward', 'optim/grad_norm', (value) => `gradient norm ${number(value)}`)
  say('update', 'optim/lr', (value) => `learning rate ${number(value)}`)
  return said
}
