// Which tasks are asked next, and their setting up. The training order is endless and a pure function of config and
// seed; difficulty pools take examples out of it, or draw them more or less often.

import type { Split } from '../../environments/messages.ts'
import type { DrawnTask } from '../protocol.ts'
import { RandomStream } from '../random.ts'
import { drawByDifficulty, mayBeDrawn } from '../rl/pools.ts'
import { exampleKey } from '../rl/rollouts.ts'
import { Answer, type Question } from './answer.ts'
import { longestSequence, type Progress, type Run } from './run.ts'

export interface NumberedTask {
  number: number
  task: DrawnTask
}

/** The next `count` training tasks, and what is known after asking them. */
export async function nextTasks(
  run: Run,
  progress: Progress,
  count: number,
): Promise<{ tasks: NumberedTask[]; progress: Progress }> {
  if (run.config.curriculum.sampler === 'difficulty_pool') return byDifficulty(run, progress, count)
  const deadline = run.config.browser.environment_deadline_ms
  const tasks: NumberedTask[] = []
  let { cursor, asked } = progress
  const last = cursor + mostToScan(run, count)
  while (tasks.length < count) {
    if (cursor >= last) {
      throw new Error(
        `Drew no task: all examples of ${names(run)} have been put aside as too easy or too hard. ` +
          'Widen buffer.easy_threshold and buffer.hard_threshold, or add examples.',
      )
    }
    const positions = Array.from({ length: count - tasks.length }, (_, i) => cursor + i)
    for (const task of await run.environment.draw('train', positions, deadline)) {
      if (mayBeDrawn(progress.pools, keyOf(task))) tasks.push({ number: asked++, task })
    }
    cursor += positions.length
  }
  return { tasks, progress: { ...progress, cursor, asked } }
}

// Every example of a dataset comes by within twice its size; a generator has new ones for ever.
function mostToScan({ environments }: Run, count: number): number {
  const sizes = environments.map(({ trainSize }) => trainSize)
  if (sizes.some((size) => size === null)) return count * 1000
  return count + 2 * sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0)
}

async function byDifficulty(run: Run, progress: Progress, count: number) {
  const examples = await everyExample(run)
  const keys = examples.map(keyOf)
  const random = new RandomStream(run.config.seed).fork('difficulty_pool')
  let { asked } = progress
  const tasks = Array.from({ length: count }, (): NumberedTask => {
    const number = asked++
    return { number, task: examples[drawByDifficulty(progress.pools, keys, random.fork(number).next())] }
  })
  return { tasks, progress: { ...progress, asked } }
}

const known = new WeakMap<Run, Promise<DrawnTask[]>>()

/** The training set, each example once. */
function everyExample(run: Run): Promise<DrawnTask[]> {
  let examples = known.get(run)
  if (!examples) {
    examples = drawEveryExample(run)
    known.set(run, examples)
  }
  return examples
}

async function drawEveryExample(run: Run): Promise<DrawnTask[]> {
  let size = 0
  for (const { name, trainSize } of run.environments) {
    if (trainSize === null) {
      throw new Error(
        `Drew no task: curriculum.sampler = "difficulty_pool" needs a finite training set, and ${name} never ends. ` +
          'Use "standard", or an environment with a dataset.',
      )
    }
    size += trainSize
  }
  const positions = Array.from({ length: size }, (_, position) => position)
  const byKey = new Map<string, DrawnTask>()
  for (const task of await run.environment.draw('train', positions, run.config.browser.environment_deadline_ms)) {
    if (!byKey.has(keyOf(task))) byKey.set(keyOf(task), task)
  }
  return [...byKey.values()]
}

function keyOf({ environment, exampleId, position }: DrawnTask): string {
  return exampleKey({ environment, example: exampleId, task: position })
}

function names({ environments }: Run): string {
  return environments.map(({ name }) => name).join(', ')
}

let opened = 0

/** Opens G answers to each task and puts the prompt's tokens in front of them. */
export async function setUp(run: Run, split: Split, tasks: NumberedTask[], G: number): Promise<Question[]> {
  const questions = tasks.map(({ number, task }): Question => {
    const answers = Array.from({ length: G }, (_, attempt) => {
      return new Answer(`${split}/${number}/${attempt}/${opened++}`, number, attempt, task)
    })
    return { number, task, answers }
  })
  const answers = questions.flatMap((question) => question.answers)
  const results = await run.environment.setup(
    answers.map(({ handle, task }) => ({ handle, split, position: task.position })),
    run.config.browser.environment_deadline_ms,
  )
  // The G prompts of a question are nearly always the same text, and are rendered once.
  const rendered = new Map<string, number[]>()
  results.forEach(({ prompt, tools = [], error }, i) => {
    const answer = answers[i]
    if (error !== null) {
      answer.fail(error)
      return
    }
    const text = JSON.stringify([prompt, tools])
    const ids = rendered.get(text) ?? run.script.renderPrompt(prompt, tools)
    rendered.set(text, ids)
    answer.prompt = prompt
    answer.promptTokens = ids.length
    answer.read(ids)
    if (ids.length >= longestSequence(run)) answer.end('prompt_too_long', true)
  })
  return questions
}
