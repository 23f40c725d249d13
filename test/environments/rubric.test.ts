import { describe, expect, test } from 'vitest'
import type { Message } from '../../environments/messages.ts'
import { XMLParser } from '../../environments/parsers.ts'
import { Rubric, RubricGroup } from '../../environments/rubric.ts'
import { newState, type State } from '../../environments/state.ts'

function rollout(content: string, answer = 'yes'): State {
  const prompt: Message[] = [{ role: 'user', content: 'well?' }]
  const state = newState({ exampleId: 4, prompt, answer, info: { hint: 'y' }, task: 'ask' }, 0)
  state.completion = [{ role: 'assistant', content }]
  return state
}

const text = (completion: Message[]) => completion[0].content

describe('a rubric', () => {
  test('adds weight times value; a weight of 0 only reports', async () => {
    const rubric = new Rubric()
      .addReward(
        'right',
        ['completion', 'answer'],
        ({ completion, answer }) => (text(completion) === answer ? 1 : 0),
        2,
      )
      .addReward('short', ['completion'], async ({ completion }) => 1 / text(completion).length, 0.5)
      .addReward('rude', ['completion'], ({ completion }) => (text(completion).includes('!') ? 1 : 0), -1)
      .addMetric('length', ['completion'], ({ completion }) => text(completion).length)
    expect(rubric.names()).toEqual(['right', 'short', 'rude', 'length'])
    // 'yes': 2·1 + 0.5·1/3 − 0; 'no!': 2·0 + 0.5·1/3 − 1
    expect(await rubric.score([rollout('yes'), rollout('no!')])).toEqual([
      { reward: 2 + 0.5 / 3, metrics: { right: 1, short: 1 / 3, rude: 0, length: 3 }, error: null },
      { reward: 0.5 / 3 - 1, metrics: { right: 0, short: 1 / 3, rude: 1, length: 3 }, error: null },
    ])
  })

  test('hands a function exactly what it declares', async () => {
    const seen: string[][] = []
    const parser = new XMLParser(['answer'])
    await new Rubric({ parser })
      .addReward('a', ['info', 'parser', 'task'], (inputs) => {
        seen.push(Object.keys(inputs).sort())
        expect(inputs.parser).toBe(parser)
        expect(inputs.info.hint).toBe('y')
        return 0
      })
      .addGroupReward('b', ['completions', 'states'], (inputs) => {
        seen.push(Object.keys(inputs).sort())
        return inputs.states.map(() => 0)
      })
      .score([rollout('a')])
    expect(seen).toEqual([
      ['info', 'parser', 'task'],
      ['completions', 'states'],
    ])
  })

  test('judges a group as a whole', async () => {
    const rubric = new Rubric()
      .addReward('one', [], () => 1)
      .addGroupReward(
        'novelty',
        ['completions'],
        ({ completions }) => {
          const all = completions.map(text)
          return all.map((each) => 1 / all.filter((other) => other === each).length)
        },
        0.5,
      )
    // two say 'a', one says 'b': 1 + 0.5·1/2, 1 + 0.5·1/2, 1 + 0.5·1
    const scores = await rubric.score([rollout('a'), rollout('a'), rollout('b')])
    expect(scores.map(({ reward }) => reward)).toEqual([1.25, 1.25, 1.5])
  })

  test('makes a rollout errored when a function throws, never zero, and leaves its siblings alone', async () => {
    const rubric = new Rubric()
      .addReward('first', [], () => 1)
      .addReward('fragile', ['completion'], ({ completion }) => {
        if (text(completion) === 'bad') throw new Error('no such key.')
        return 1
      })
    const [good, bad] = await rubric.score([rollout('good'), rollout('bad')])
    expect(good).toEqual({ reward: 2, metrics: { first: 1, fragile: 1 }, error: null })
    expect(bad).toEqual({
      reward: null,
      metrics: { first: 1 },
      error: 'The reward function "fragile" failed: no such key.',
    })
  })

  test('takes a rejected promise, a NaN and a wrong count of group values as failures', async () => {
    const rejected = new Rubric().addReward('r', [], () => Promise.reject(new Error('refused')))
    expect((await rejected.score([rollout('a')]))[0]).toMatchObject({
      reward: null,
      error: expect.stringContaining('refused'),
    })
    const notANumber = new Rubric().addMetric('n', [], () => Number.NaN)
    expect((await notANumber.score([rollout('a')]))[0]).toMatchObject({
      reward: null,
      error: 'The reward function "n" failed: a finite number was expected from "n", got number NaN.',
    })
    const short = new Rubric().addGroupReward('g', [], () => [1])
    const scores = await short.score([rollout('a'), rollout('b')])
    expect(scores.map(({ reward }) => reward)).toEqual([null, null])
    expect(scores[0].error).toContain('one number for each of 2 rollouts was expected, got 1 values')
  })

  test('leaves rollouts that are already errored out of a group reward', async () => {
    const lost = rollout('lost')
    lost.error = 'The environment died.'
    const rubric = new Rubric().addGroupReward('count', ['states'], ({ states }) => states.map(() => states.length))
    expect(await rubric.score([rollout('a'), lost, rollout('b')])).toEqual([
      { reward: 2, metrics: { count: 2 }, error: null },
      { reward: null, metrics: {}, error: 'The environment died.' },
      { reward: 2, metrics: { count: 2 }, error: null },
    ])
  })

  test('refuses two functions of one name and a weight that is no number', () => {
    const rubric = new Rubric().addReward('a', [], () => 1)
    expect(() => rubric.addMetric('a', [], () => 1)).toThrow('two functions are named "a"')
    expect(() => rubric.addReward('b', [], () => 1, Number.NaN)).toThrow('weight of "b"')
  })
})

describe('a rubric group', () => {
  test('adds the rewards of its rubrics, and metrics of one name', async () => {
    const one = new Rubric().addReward('a', [], () => 1, 2).addMetric('turns', [], () => 3)
    const other = new Rubric().addReward('b', [], () => 0.5).addMetric('turns', [], () => 4)
    const group = new RubricGroup([one, other])
    expect(group.names()).toEqual(['a', 'turns', 'b'])
    // 2·1 + 0.5; turns 3 + 4
    expect(await group.score([rollout('x')])).toEqual([
      { reward: 2.5, metrics: { a: 1, turns: 7, b: 0.5 }, error: null },
    ])
  })

  test('is errored where one of its rubrics is', async () => {
    const broken = new Rubric().addReward('b', [], () => {
      throw new Error('broken')
    })
    const group = new RubricGroup([broken, new Rubric().addReward('a', [], () => 1)])
    expect(await group.score([rollout('x')])).toEqual([
      { reward: null, metrics: { a: 1 }, error: 'The reward function "b" failed: broken.' },
    ])
  })
})
