// Invariant 7, for every bundled environment: the gold answer scores its maximum, the empty answer its minimum, and the
// same seed gives the same tasks. A new line in environments/index.ts is tested here by itself.

import { describe, expect, test } from 'vitest'
import { EnvironmentError, environments, findEnvironment, openEnvironment } from '../../environments/index.ts'
import { play } from '../../environments/play.ts'

const positions = Array.from({ length: 24 }, (_, i) => i)

describe.each(environments.map((loader) => [loader.id] as const))('%s', (id) => {
  test.each(['train', 'eval'] as const)('scores its gold answer with its maximum (%s)', async (split) => {
    const environment = await openEnvironment(id)
    for (const position of positions) {
      const example = environment.draw(1, split, position)
      const state = await play(environment, example, (now) => environment.gold(now)!)
      const [score] = await environment.score([state])
      expect(score).toMatchObject({ reward: environment.rewardRange.maximum, error: null })
    }
  })

  test('scores the empty answer with its minimum', async () => {
    const environment = await openEnvironment(id)
    for (const position of positions) {
      const example = environment.draw(1, 'train', position)
      const state = await play(environment, example, () => ({ role: 'assistant', content: '' }))
      const [score] = await environment.score([state])
      expect(score).toMatchObject({ reward: environment.rewardRange.minimum, error: null })
    }
  })

  test('gives the same tasks for the same seed, in any order of asking, and others for another', async () => {
    const draw = async (seed: number, order: number[]) => {
      const environment = await openEnvironment(id)
      return new Map(order.map((position) => [position, environment.draw(seed, 'train', position)]))
    }
    const forwards = await draw(1, positions)
    const backwards = await draw(1, [...positions].reverse())
    for (const position of positions) expect(backwards.get(position)).toEqual(forwards.get(position))
    expect([...(await draw(2, positions)).values()]).not.toEqual([...forwards.values()])
  })

  test('evaluates on the same tasks whatever the seed, and never trains on them', async () => {
    const environment = await openEnvironment(id)
    const held = Array.from({ length: environment.evaluation.size! }, (_, i) => environment.draw(1, 'eval', i))
    expect(held.map((_, i) => environment.draw(2, 'eval', i))).toEqual(held)
    const asked = new Set(held.map(({ prompt }) => JSON.stringify(prompt)))
    expect(asked.size).toBe(held.length)
    for (let position = 0; position < 2000; position++)
      expect(asked.has(JSON.stringify(environment.draw(1, 'train', position).prompt))).toBe(false)
  })

  test('keeps its state as plain JSON', async () => {
    const environment = await openEnvironment(id)
    const state = await environment.begin(environment.draw(1, 'train', 0), 1)
    expect(JSON.parse(JSON.stringify(state))).toEqual(state)
  })

  test('describes each knob and itself', () => {
    const loader = findEnvironment(id)
    expect(loader.title).not.toBe('')
    expect(loader.data).not.toBe('')
    for (const [name, knob] of Object.entries(loader.knobs.shape)) {
      const { title, description } =
        (knob as { meta(): { title?: string; description?: string } | undefined }).meta() ?? {}
      expect([name, Boolean(title), Boolean(description)]).toEqual([name, true, true])
    }
  })
})

describe('the index', () => {
  test('takes the Hub id, underscores and a version', () => {
    for (const id of [
      'reverse-text',
      'reverse_text',
      'primeintellect/reverse-text',
      'primeintellect/reverse-text@0.1.4',
    ])
      expect(findEnvironment(id).id).toBe('reverse-text')
  })

  test('names the nearest and lists the known for an unknown id', () => {
    expect(() => findEnvironment('revers-text')).toThrow(EnvironmentError)
    expect(() => findEnvironment('revers-text')).toThrow(
      'No environment is called "revers-text". Did you mean "reverse-text"? Known here: ',
    )
    expect(() => findEnvironment('zzz')).toThrow(/^No environment is called "zzz"\. Known here: .*reverse-text/)
    expect(() => findEnvironment('someone/reverse-text')).toThrow('Did you mean "reverse-text"?')
  })

  test('names the nearest knob for an unknown arg, and says what a wrong one should be', async () => {
    await expect(openEnvironment('reverse-text', { min_lenght: 3 })).rejects.toThrow(
      'The args of reverse-text cannot be used: "min_lenght" is not one of its args; did you mean "min_length"?',
    )
    await expect(openEnvironment('reverse-text', { max_length: 'long' })).rejects.toThrow(
      /max_length: .*expected number/,
    )
    await expect(openEnvironment('reverse-text', { min_length: 30 })).rejects.toThrow(
      'min_length: min_length must not exceed max_length.',
    )
  })
})
