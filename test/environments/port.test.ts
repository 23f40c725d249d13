import { afterEach, describe, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { rowsOf } from '../../environments/datasets.ts'
import {
  type Context,
  type Environment,
  MultiTurnEnvironment,
  SingleTurnEnvironment,
} from '../../environments/environment.ts'
import { environments } from '../../environments/index.ts'
import type { EnvironmentLoader } from '../../environments/loader.ts'
import type { Message } from '../../environments/messages.ts'
import { Rubric } from '../../environments/rubric.ts'
import type { State } from '../../environments/state.ts'
import { createEnvironmentPort } from '../../workers/environments.ts'
import type { OpenRequest } from '../../workers/protocol.ts'
import { Calculator, GuessNumber, says } from './games.ts'

const NEVER = new Promise<never>(() => {})
const signals: AbortSignal[] = []
const cleaned: number[] = []

/** Does as the policy bids it: each word names a trouble. Example 3 cannot be set up, example 4 hangs there. */
class Troubled extends MultiTurnEnvironment {
  constructor() {
    super({
      id: 'troubled',
      title: 'Troubled',
      summary: 'Does as it is told.',
      train: rowsOf(Array.from({ length: 5 }, (_, i) => ({ question: `task ${i}` }))),
      rubric: new Rubric()
        .addReward('score', ['completion', 'signal'], async ({ completion, signal }) => {
          const last = completion.findLast(({ role }) => role === 'assistant')?.content
          if (last === 'hang score') {
            signals.push(signal)
            await NEVER
          }
          if (last === 'fail score') throw new Error('the scale is broken')
          return 1
        })
        .addGroupReward('size', ['states'], ({ states }) => states.map(() => states.length), 0),
      rewardRange: { minimum: 0, maximum: 1 },
      maxTurns: 2,
    })
  }

  override async setupState(state: State, { signal }: Context): Promise<void> {
    const task = state.prompt.at(-1)!.content
    if (task === 'task 3') throw new Error('Task 3 has no board.')
    if (task === 'task 4') {
      signals.push(signal)
      await NEVER
    }
    if (task === 'task 2') state.prompt.push({ role: 'user', content: 'set up' })
  }

  override async envResponse(messages: Message[], _state: State, { signal }: Context): Promise<Message[]> {
    const said = messages.at(-1)!.content
    if (said === 'throw') throw new Error('I would rather not.')
    if (said === 'hang') {
      signals.push(signal)
      await NEVER
    }
    if (said === 'spin') for (const end = performance.now() + 150; performance.now() < end; );
    return [{ role: 'user', content: `you said ${said}` }]
  }

  override cleanup(state: State): void {
    cleaned.push(state.exampleId)
    if (state.exampleId === 1) throw new Error('The broom is lost.')
  }
}

/** Judges rollouts one by one; never done with one that says «late». */
const singleFile = () =>
  new SingleTurnEnvironment({
    id: 'single-file',
    title: 'Single file',
    summary: 'One after the other.',
    train: rowsOf([{ question: 'When?' }]),
    rubric: new Rubric()
      .addReward('time', ['completion'], ({ completion }) => (completion[0].content === 'late' ? NEVER : 1))
      .addMetric('after', [], () => 1),
    rewardRange: { minimum: 0, maximum: 1 },
  })

const loaderOf = (id: string, make: () => Environment): EnvironmentLoader => ({
  id,
  title: id,
  summary: id,
  data: 'none',
  python: null,
  knobs: z.strictObject({}),
  load: make,
})
const loaders = [
  ...environments,
  loaderOf('troubled', () => new Troubled()),
  loaderOf('single-file', singleFile),
  loaderOf('guess-number', () => new GuessNumber()),
  loaderOf('calculator', () => new Calculator()),
]

const env = (id: string, more: Partial<OpenRequest['environments'][number]> = {}) => ({
  id,
  name: id,
  args: {},
  ratio: 1,
  ...more,
})

async function opened(...list: (string | ReturnType<typeof env>)[]) {
  const port = createEnvironmentPort(loaders)
  await port.open({ environments: list.map((one) => (typeof one === 'string' ? env(one) : one)), seed: 3 })
  return port
}

/** Sets up one rollout per task of `troubled`, in the evaluation's order: the handle is the task's number. */
async function troubled(...tasks: number[]) {
  const port = await opened('troubled')
  await port.setup(
    tasks.map((task) => ({ handle: String(task), split: 'eval', position: task })),
    1000,
  )
  const say = (content: string, ...handles: number[]) =>
    port.respond(
      handles.map((handle) => ({ handle: String(handle), message: says(content), truncated: false })),
      40,
    )
  return { port, say }
}

afterEach(() => {
  signals.length = 0
  cleaned.length = 0
  vi.restoreAllMocks()
})

describe('the environment port', () => {
  test('describes what it opened', async () => {
    const port = createEnvironmentPort(loaders)
    const described = await port.open({
      environments: [env('reverse-text', { args: { eval_size: 10 } }), env('guess-number')],
      seed: 0,
    })
    expect(described).toMatchObject([
      { id: 'reverse-text', name: 'reverse-text', trainSize: null, evalSize: 10, maxTurns: 1 },
      { id: 'guess-number', title: 'Guess a number', trainSize: 1, evalSize: 1, maxTurns: 5 },
    ])
  })

  test('draws, sets up, answers and scores a group', async () => {
    const port = await opened('reverse-text')
    const [task] = await port.draw('train', [7], 1000)
    expect(task).toMatchObject({ position: 7, exampleId: 7, environment: 'reverse-text' })
    const handles = ['a', 'b']
    const setup = await port.setup(
      handles.map((handle) => ({ handle, split: 'train', position: 7 })),
      1000,
    )
    expect(setup).toEqual(handles.map((handle) => ({ handle, prompt: task.prompt, tools: [], error: null })))
    const answers = [`<reversed_text>${task.answer}</reversed_text>`, task.answer]
    const turns = await port.respond(
      handles.map((handle, i) => ({ handle, message: says(answers[i]), truncated: false })),
      1000,
    )
    expect(turns).toEqual(
      handles.map((handle) => ({ handle, done: true, stop: 'max_turns_reached', messages: [], error: null })),
    )
    expect(await port.score([{ handles }], 1000)).toEqual([
      [
        { handle: 'a', reward: 1, metrics: { lcs_reward_func: 1, num_turns: 1 }, error: null },
        { handle: 'b', reward: 0, metrics: { lcs_reward_func: 0, num_turns: 1 }, error: null },
      ],
    ])
  })

  test('draws the same tasks from any position, port or order', async () => {
    const one = await (await opened('reverse-text')).draw('train', [0, 5, 9], 1000)
    const other = await (await opened('reverse-text')).draw('train', [9, 5, 0], 1000)
    expect(other.reverse()).toEqual(one)
  })

  test('carries tools and the prompt that setup made', async () => {
    const port = await opened('calculator')
    const [{ tools }] = await port.setup([{ handle: 'a', split: 'train', position: 0 }], 1000)
    expect(tools?.map((each) => each.function.name)).toEqual(['add', 'multiply', 'fail'])
    const { port: other } = await troubled()
    const [{ prompt }] = await other.setup([{ handle: 'a', split: 'eval', position: 2 }], 1000)
    expect(prompt.map(({ content }) => content)).toEqual(['task 2', 'set up'])
  })

  test('mixes several environments by their ratios in training, and equally in evaluation', async () => {
    const port = await opened(env('reverse-text', { ratio: 3 }), env('guess-number', { name: 'game' }))
    const positions = Array.from({ length: 16 }, (_, i) => i)
    const count = async (split: 'train' | 'eval') => {
      const tasks = await port.draw(split, positions, 1000)
      return tasks.filter(({ environment }) => environment === 'game').length
    }
    // 16 · 1/4 and 16 · 1/2
    expect(await count('train')).toBe(4)
    expect(await count('eval')).toBe(8)
    const all = await port.draw('train', positions, 1000)
    const alone = await port.draw('train', [5], 1000)
    expect(alone[0]).toEqual(all[5])
  })

  test('refuses no environment, one name twice, and unknown ids and args, with sentences', async () => {
    const port = createEnvironmentPort(loaders)
    const open = (...list: ReturnType<typeof env>[]) => port.open({ environments: list, seed: 0 })
    await expect(open()).rejects.toThrow('at least one [[env]]')
    await expect(open(env('troubled'), env('troubled'))).rejects.toThrow(
      'Two [[env]] are called "troubled"; give one of them another name.',
    )
    await expect(open(env('trubled'))).rejects.toThrow('Did you mean "troubled"?')
    await expect(open(env('reverse-text', { args: { tags: 'r' } }))).rejects.toThrow('did you mean "tag"?')
    await expect(port.draw('train', [0], 1000)).rejects.toThrow('No environment is open')
  })
})

describe('an environment that fails', () => {
  test('in setup makes that rollout errored and no other', async () => {
    const port = await opened('troubled')
    const results = await port.setup(
      [2, 3].map((task) => ({ handle: String(task), split: 'eval', position: task })),
      1000,
    )
    expect(results.map(({ error }) => error)).toEqual([
      null,
      'troubled could not set up a rollout: Task 3 has no board.',
    ])
    const scores = await port.score([{ handles: ['2', '3'] }], 1000)
    expect(scores[0][1]).toEqual({
      handle: '3',
      reward: null,
      metrics: {},
      error: 'troubled could not set up a rollout: Task 3 has no board.',
    })
  })

  test('in an answer makes that rollout errored and no other', async () => {
    const { port, say } = await troubled(0, 2)
    const [thrown] = await say('throw', 0)
    expect(thrown).toEqual({
      handle: '0',
      done: true,
      stop: 'has_error',
      messages: [],
      error: 'troubled failed to answer turn 1: I would rather not.',
    })
    expect((await say('well', 2))[0]).toMatchObject({
      done: false,
      messages: [{ role: 'user', content: 'you said well' }],
      error: null,
    })
    expect((await say('again', 0))[0]).toMatchObject({ done: true, error: thrown.error })
    const [group] = await port.score([{ handles: ['0', '2'] }], 1000)
    expect(group).toEqual([
      { handle: '0', reward: null, metrics: {}, error: thrown.error },
      { handle: '2', reward: 1, metrics: { score: 1, size: 1, num_turns: 1 }, error: null },
    ])
  })

  test('in a reward makes that rollout errored, never zero', async () => {
    const { port, say } = await troubled(0, 2)
    await say('fail score', 0)
    await say('well', 2)
    const [group] = await port.score([{ handles: ['0', '2'] }], 1000)
    expect(group[0]).toMatchObject({ reward: null, error: 'The reward function "score" failed: the scale is broken.' })
    expect(group[1]).toMatchObject({ reward: 1, error: null })
  })

  test('in its cleanup is warned about and nothing more', async () => {
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => {})
    const { port, say } = await troubled(0, 1)
    await say('well', 0, 1)
    const [group] = await port.score([{ handles: ['0', '1'] }], 1000)
    expect(group.map(({ reward }) => reward)).toEqual([1, 1])
    expect(cleaned).toEqual([0, 1])
    expect(warn).toHaveBeenCalledWith('troubled could not clean up after a rollout: The broom is lost.')
  })
})

describe('an environment that is late', () => {
  test('in setup makes that rollout errored, and is told to stop', async () => {
    const port = await opened('troubled')
    const results = await port.setup(
      [2, 4].map((task) => ({ handle: String(task), split: 'eval', position: task })),
      40,
    )
    expect(results[0].error).toBeNull()
    expect(results[1].error).toBe(
      'troubled could not set up a rollout: it did not finish within 40 ms; give it more time or less to do.',
    )
    expect(signals.map(({ aborted }) => aborted)).toEqual([true])
  })

  test('in an answer makes that rollout errored; its siblings have their answers', async () => {
    const { port } = await troubled(0, 2)
    const start = performance.now()
    const results = await port.respond(
      [
        { handle: '0', message: says('hang'), truncated: false },
        { handle: '2', message: says('well'), truncated: false },
      ],
      40,
    )
    expect(performance.now() - start).toBeLessThan(1000)
    expect(results[0]).toMatchObject({
      done: true,
      stop: 'has_error',
      error: 'troubled could not answer turn 1: it did not finish within 40 ms; give it more time or less to do.',
    })
    expect(results[1]).toMatchObject({ done: false, error: null })
    expect(signals[0].aborted).toBe(true)
    const [group] = await port.score([{ handles: ['0', '2'] }], 1000)
    expect(group.map(({ reward }) => reward)).toEqual([null, 1])
  })

  test('in a reward makes that rollout errored; its siblings and other groups have their scores', async () => {
    const { port, say } = await troubled(0, 1, 2)
    vi.spyOn(console, 'warn').mockImplementation(() => {})
    await say('hang score', 0)
    await say('well', 1, 2)
    const [group, other] = await port.score([{ handles: ['0', '1'] }, { handles: ['2'] }], 40)
    const error = 'The reward function "score" failed: it did not finish within 40 ms; give it more time or less to do.'
    expect(group[0]).toEqual({ handle: '0', reward: null, metrics: { num_turns: 1 }, error })
    // the group's own function never ran, since it would have had to wait for the late one
    expect(group[1]).toMatchObject({
      reward: null,
      metrics: { score: 1 },
      error: expect.stringContaining('"size" failed'),
    })
    expect(other[0]).toMatchObject({ reward: 1, error: null })
    expect(signals[0].aborted).toBe(true)
  })

  test('in a reward, with no reward over the group, leaves its siblings their scores', async () => {
    const port = await opened('single-file')
    const handles = ['late', 'punctual']
    await port.setup(
      handles.map((handle) => ({ handle, split: 'train', position: 0 })),
      1000,
    )
    await port.respond(
      handles.map((handle) => ({ handle, message: says(handle), truncated: false })),
      1000,
    )
    const [group] = await port.score([{ handles }], 40)
    expect(group.map(({ reward, error }) => [reward, error === null])).toEqual([
      [null, false],
      [1, true],
    ])
  })

  test('without ever yielding is found out when it returns', async () => {
    const { say } = await troubled(0, 2)
    const results = await say('spin', 0, 2)
    for (const { error } of results) expect(error).toContain('it did not finish within 40 ms')
  })
})

describe('handles', () => {
  test('are forgotten once scored or released, and an unknown one is said to be unknown', async () => {
    const { port, say } = await troubled(0, 2)
    await say('well', 0)
    await port.score([{ handles: ['0'] }], 1000)
    await port.release(['2', 'never'])
    for (const handle of [0, 2, 9]) {
      const sentence = `No rollout is open under the handle ${handle}; it was never set up, or it was scored or released.`
      expect((await say('well', handle))[0]).toMatchObject({ done: true, error: sentence })
      expect((await port.score([{ handles: [String(handle)] }], 1000))[0][0]).toMatchObject({
        reward: null,
        error: sentence,
      })
    }
    expect(cleaned).toEqual([0, 2])
  })

  test('belong to one open rollout at a time', async () => {
    const { port } = await troubled(0)
    const [again] = await port.setup([{ handle: '0', split: 'eval', position: 2 }], 1000)
    expect(again.error).toBe('The handle 0 belongs to an open rollout; each needs its own.')
    expect((await port.score([{ handles: ['0'] }], 1000))[0][0].error).toBeNull()
  })

  test('that are released end the wait for their answer', async () => {
    const { port } = await troubled(0)
    const waiting = port.respond([{ handle: '0', message: says('hang'), truncated: false }], 60_000)
    await port.release(['0'])
    expect((await waiting)[0].error).toContain('The rollout 0 was released')
    expect(signals[0].aborted).toBe(true)
  })

  test('can be carried to another port, where the rollout goes on', async () => {
    const first = await opened('guess-number', 'troubled')
    const [drawn] = await first.setup([{ handle: 'g', split: 'train', position: 0 }], 1000)
    expect(drawn.error).toBeNull()
    const respond = (port: typeof first, guess: number) =>
      port.respond([{ handle: 'g', message: says(`<guess>${guess}</guess>`), truncated: false }], 1000)
    const [before] = await respond(first, 1)
    const saved = JSON.parse(JSON.stringify(await first.save()))
    const second = await opened('guess-number', 'troubled')
    await second.restore(saved)
    const answers = async (port: typeof first) => [
      (await respond(port, 8))[0].messages,
      (await respond(port, 12))[0].messages,
    ]
    expect(await answers(second)).toEqual(await answers(first))
    expect(before.handle).toBe('g')
    await expect((await opened('reverse-text')).restore(saved)).rejects.toThrow(
      '"guess-number", which is not open here',
    )
    await expect(second.save(['x'])).rejects.toThrow('No rollout is open under the handle x')
  })

  test('are forgotten when other environments are opened', async () => {
    const { port } = await troubled(0)
    await port.open({ environments: [env('reverse-text')], seed: 0 })
    expect(cleaned).toEqual([0])
    expect(await port.save()).toEqual([])
  })
})
