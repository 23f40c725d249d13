import { describe, expect, test } from 'vitest'
import { rowsOf } from '../../environments/datasets.ts'
import { MultiTurnEnvironment, SingleTurnEnvironment, type StopCondition } from '../../environments/environment.ts'
import { EnvironmentGroup } from '../../environments/group.ts'
import type { Message } from '../../environments/messages.ts'
import { play } from '../../environments/play.ts'
import { Rubric } from '../../environments/rubric.ts'
import { deserialiseState, type State, serialiseState } from '../../environments/state.ts'
import { GuessNumber, says } from './games.ts'

const options = {
  id: 'echo',
  title: 'Echo',
  summary: 'Says it again.',
  train: rowsOf([{ question: 'Speak.' }]),
  rubric: new Rubric().addReward('turns', ['state'], ({ state }) => state.turn),
  rewardRange: { minimum: 0, maximum: 10 },
}

class Echo extends MultiTurnEnvironment {
  more: StopCondition[] = []
  override stopConditions() {
    return [...super.stopConditions(), ...this.more]
  }
  override envResponse(messages: Message[], state: State): Message[] {
    const said = messages.at(-1)!.content
    if (said === 'throw') throw new Error('Nothing to echo.')
    if (said === 'mark') state.error = 'The echo was marked.'
    return said === 'silence' ? [] : [{ role: 'user', content: said }]
  }
}

/** Halves the interval by what it was told. */
function bisect(state: State): Message {
  let [low, high] = [1, 15]
  const heard = [...state.completion, ...state.pending]
  heard.forEach(({ content }, index) => {
    const guess = Number(heard[index - 1]?.content.match(/\d+/)?.[0])
    if (content === 'higher') low = guess + 1
    if (content === 'lower') high = guess - 1
  })
  return says(`<guess>${(low + high) >> 1}</guess>`)
}

describe('a rollout of many turns', () => {
  test('goes back and forth until the environment has its last word', async () => {
    const game = new GuessNumber()
    for (let seed = 0; seed < 20; seed++) {
      const state = await play(game, game.draw(0, 'train', 0), bisect, { seed })
      expect(state.stop).toBe('has_final_env_response')
      expect(state.turn).toBeLessThanOrEqual(4)
      expect(state.completion.at(-1)).toEqual({ role: 'user', content: 'Right.' })
      expect(state.completion.map(({ role }) => role)).toEqual(
        Array.from({ length: 2 * state.turn }, (_, i) => (i % 2 === 0 ? 'assistant' : 'user')),
      )
      const [score] = await game.score([state])
      expect(score).toEqual({
        reward: 1 / state.turn,
        metrics: { found: 1 / state.turn, num_turns: state.turn },
        error: null,
      })
    }
  })

  test('meets the same world for the same seed, and siblings meet one world', async () => {
    const game = new GuessNumber()
    const secrets = async () =>
      Promise.all(
        Array.from({ length: 8 }, async (_, seed) => (await game.begin(game.draw(0, 'train', 0), seed)).data.secret),
      )
    expect(await secrets()).toEqual(await secrets())
    expect(new Set(await secrets()).size).toBeGreaterThan(1)
  })

  test('ends after its most turns, and what nobody answered is not in the completion', async () => {
    const game = new GuessNumber(3)
    const state = await play(game, game.draw(0, 'train', 0), () => says('no idea'))
    expect(state.stop).toBe('max_turns_reached')
    // three messages of the policy, two answers between them
    expect(state.completion.map(({ content }) => content)).toEqual([
      'no idea',
      'Guess a number.',
      'no idea',
      'Guess a number.',
      'no idea',
    ])
    expect((await game.score([state]))[0].reward).toBe(0)
  })

  test('asks stop conditions by priority, then by name, and records the first that fires', async () => {
    const asked: string[] = []
    const condition = (name: string, priority: number, fires: boolean): StopCondition => ({
      name,
      priority,
      when: async () => {
        asked.push(name)
        return fires
      },
    })
    const echo = new Echo(options)
    echo.more = [
      condition('zebra', 5, false),
      condition('ant', 0, true),
      condition('bee', 0, true),
      condition('first', 200, false),
    ]
    const state = await play(echo, echo.draw(0, 'train', 0), () => says('hello'))
    expect(state.stop).toBe('ant')
    expect(asked).toEqual(['first', 'zebra', 'ant'])
  })

  test('is errored, with a sentence, when the environment throws, marks an error, or says nothing', async () => {
    const cases = {
      throw: 'echo failed to answer turn 1: Nothing to echo.',
      mark: 'The echo was marked.',
      silence:
        'echo failed to answer turn 1: envResponse gave no message and set no finalEnvResponse, so the policy has nothing to answer.',
    }
    for (const [said, error] of Object.entries(cases)) {
      const echo = new Echo(options)
      const state = await play(echo, echo.draw(0, 'train', 0), () => says(said))
      expect(state).toMatchObject({ stop: 'has_error', error })
      expect(await echo.score([state])).toEqual([{ reward: null, metrics: {}, error }])
    }
  })

  test('ends at its time limit', async () => {
    const echo = new Echo({ ...options, timeoutMs: 50 })
    const state = await echo.begin(echo.draw(0, 'train', 0), 0)
    expect((await echo.respond(state, says('a'), false)).done).toBe(false)
    state.startedMs -= 51
    expect(await echo.respond(state, says('b'), false)).toEqual({ done: true, stop: 'timeout_reached', messages: [] })
  })

  test('remembers that a message was cut off', async () => {
    const echo = new Echo(options)
    const state = await echo.begin(echo.draw(0, 'train', 0), 0)
    await echo.respond(state, says('a'), true)
    await echo.respond(state, says('b'), false)
    expect(state.truncated).toBe(true)
  })

  test('goes on from its saved text as if nothing had happened', async () => {
    const game = new GuessNumber()
    const whole = await play(game, game.draw(0, 'train', 0), bisect, { seed: 3 })
    let state: State = await game.begin(game.draw(0, 'train', 0), 3)
    for (let done = false; !done; ) {
      const there = deserialiseState(serialiseState(state)) as Awaited<ReturnType<GuessNumber['begin']>>
      done = (await game.respond(there, bisect(there), false)).done
      state = there
    }
    expect({ ...state, startedMs: 0 }).toEqual({ ...whole, startedMs: 0 })
  })

  test('refuses to be saved with what JSON would lose, and names the place', async () => {
    const echo = new Echo(options)
    const state = await echo.begin(echo.draw(0, 'train', 0), 0)
    state.data = { seen: [new Set([1])] }
    expect(() => serialiseState(state)).toThrow('state.data.seen[0] must be plain JSON to be saved, got Set')
    state.data = { score: Number.NaN }
    expect(() => serialiseState(state)).toThrow('state.data.score must be plain JSON to be saved, got number NaN')
  })

  test('that no stop condition ends is found out', async () => {
    const echo = new Echo(options)
    await expect(play(echo, echo.draw(0, 'train', 0), () => says('on'), { mostTurns: 5 })).rejects.toThrow(
      'echo: no stop condition fired within 5 turns of example 0.',
    )
  })
})

describe('a prompt', () => {
  const prompts = (row: object, more: object = {}) =>
    new SingleTurnEnvironment({ ...options, systemPrompt: 'S', fewShot: [says('shown')], ...more }).example(row, 0)
      .prompt

  test('is made of system prompt, few-shot messages and question', () => {
    expect(prompts({ question: 'Q' })).toEqual([
      { role: 'system', content: 'S' },
      { role: 'assistant', content: 'shown' },
      { role: 'user', content: 'Q' },
    ])
  })

  test('given as messages gets a system prompt only if it has none', () => {
    expect(prompts({ prompt: [{ role: 'user', content: 'Q' }] }).map(({ content }) => content)).toEqual(['S', 'Q'])
    expect(prompts({ prompt: [{ role: 'system', content: 'own' }] }).map(({ content }) => content)).toEqual(['own'])
  })

  test('needs a prompt or a question', () => {
    expect(() => prompts({ answer: 'A' })).toThrow(
      'echo: row 0 needs a prompt (messages) or a question (text), it has neither.',
    )
  })

  test("is accompanied by info, given as an object or as JSON text, and by the environment's id as task", () => {
    const environment = new SingleTurnEnvironment(options)
    expect(environment.example({ question: 'Q', info: '{"a":1}' }, 7)).toMatchObject({
      exampleId: 7,
      info: { a: 1 },
      task: 'echo',
    })
    expect(environment.example({ question: 'Q', info: { a: 1 }, task: 't' }, 7)).toMatchObject({
      info: { a: 1 },
      task: 't',
    })
  })
})

describe('a group of environments', () => {
  const single = (id: string, size: number, reward: number) =>
    new SingleTurnEnvironment({
      ...options,
      id,
      systemPrompt: `I am ${id}.`,
      train: rowsOf(Array.from({ length: size }, (_, i) => ({ question: `${id} ${i}` }))),
      rubric: new Rubric().addReward(`${id}_reward`, [], () => reward),
    })
  const group = () =>
    new EnvironmentGroup({
      id: 'both',
      title: 'Both',
      summary: 'Two at once.',
      members: [
        { name: 'one', environment: single('a', 3, 1) },
        { name: 'two', environment: single('b', 9, 2) },
        { name: 'game', environment: new GuessNumber() },
      ],
    })

  test('asks each task of its members once an epoch, under the system prompt of the one that asks', () => {
    const environment = group()
    expect(environment.train.size).toBe(13)
    const epoch = Array.from({ length: 13 }, (_, position) => environment.draw(4, 'train', position))
    expect(new Set(epoch.map(({ prompt }) => prompt.at(-1)!.content)).size).toBe(13)
    expect(new Set(epoch.map(({ exampleId }) => exampleId)).size).toBe(13)
    for (const { task, prompt } of epoch)
      expect(prompt[0].content).toBe({ one: 'I am a.', two: 'I am b.', game: 'Guess inside <guess> tags.' }[task])
    expect(epoch.slice(0, 4).map(({ task }) => task)).not.toEqual(['one', 'one', 'one', 'two'])
  })

  test('sends each rollout to its own rubric and turns', async () => {
    const environment = group()
    expect(environment.maxTurns).toBe(5)
    const examples = Array.from({ length: 13 }, (_, position) => environment.draw(4, 'train', position))
    const of = (task: string) => examples.find((example) => example.task === task)!
    const states = await Promise.all([
      play(environment, of('two'), () => says('x')),
      play(environment, of('game'), (state) => environment.gold(state)!),
      play(environment, of('one'), () => says('x')),
    ])
    const scores = await environment.score(states)
    expect(scores.map(({ reward }) => reward)).toEqual([2, 1, 1])
    expect(scores.map(({ metrics }) => Object.keys(metrics)[0])).toEqual(['b_reward', 'found', 'a_reward'])
  })

  test('with ratios never ends, and keeps to them', () => {
    const environment = new EnvironmentGroup({
      id: 'both',
      title: 'Both',
      summary: 'Two at once.',
      members: [
        { name: 'one', environment: single('a', 3, 1), ratio: 3 },
        { name: 'two', environment: single('b', 9, 2), ratio: 1 },
      ],
    })
    expect(environment.train.size).toBeNull()
    const tasks = Array.from({ length: 40 }, (_, position) => environment.draw(4, 'train', position).task)
    expect(tasks.filter((task) => task === 'one').length).toBe(30)
  })

  test('refuses two members of one name, none at all, and a group inside', () => {
    const make = (members: { name: string; environment: EnvironmentGroup | SingleTurnEnvironment }[]) => () =>
      new EnvironmentGroup({ id: 'g', title: '', summary: '', members })
    expect(make([])).toThrow('at least one environment')
    expect(
      make([
        { name: 'a', environment: single('a', 1, 1) },
        { name: 'a', environment: single('b', 1, 1) },
      ]),
    ).toThrow('share a name')
    expect(make([{ name: 'a', environment: group() }])).toThrow('cannot hold a group')
  })
})
