import { describe, expect, test } from 'vitest'
import { openDemonstrations, openEnvironment } from '../../environments/index.ts'
import { play } from '../../environments/play.ts'
import { RandomStream } from '../../environments/random.ts'
import { pseudoText } from '../../environments/reverse-text/texts.ts'

const range = (n: number) => Array.from({ length: n }, (_, i) => i)
const LAB_NANO = { min_length: 4, max_length: 8, tag: 'r', system_prompt: 'Reverse.' }

async function rewardOf(content: string, answer: string): Promise<number | null> {
  const environment = await openEnvironment('reverse-text')
  const example = environment.example({ question: Array.from(answer).reverse().join(''), answer }, 0)
  const [score] = await environment.score([await play(environment, example, () => ({ role: 'assistant', content }))])
  return score.reward
}

describe('reverse-text', () => {
  test('asks as verifiers does: the system prompt, then the bare text', async () => {
    const environment = await openEnvironment('reverse-text')
    const { prompt, answer, task } = environment.draw(0, 'train', 0)
    expect(prompt[0]).toEqual({
      role: 'system',
      content: 'Reverse the text character-by-character. Put your answer in <reversed_text> tags.',
    })
    expect(prompt[1].role).toBe('user')
    expect(answer).toBe(prompt[1].content.split('').reverse().join(''))
    expect(task).toBe('reverse-text')
  })

  test('has the similarity of the parsed answer to the reversed text as its reward', async () => {
    expect(await rewardOf('<reversed_text> olleh </reversed_text>', 'olleh')).toBe(1)
    // «hello» against «olleh»: the longest run is «ll»; before it stand «he» and «o», after it «o» and «eh»: 2·2 / 10
    expect(await rewardOf('<reversed_text>hello</reversed_text>', 'olleh')).toBe(0.4)
    // two of five letters missing: 2·3 / (3 + 5)
    expect(await rewardOf('so: <reversed_text>oll</reversed_text>!', 'olleh')).toBe(0.75)
    expect(await rewardOf('olleh', 'olleh')).toBe(0)
    expect(await rewardOf('<reversed_text>olleh', 'olleh')).toBe(0)
  })

  test('reverses code points, not UTF-16 units', async () => {
    expect(await rewardOf('<reversed_text>🦊b😀a</reversed_text>', '🦊b😀a')).toBe(1)
    const environment = await openEnvironment('reverse-text', { system_prompt: null })
    const { prompt } = environment.draw(0, 'train', 0)
    expect(prompt).toHaveLength(1)
  })

  test('takes its prompt, tag and lengths from its args', async () => {
    const environment = await openEnvironment('reverse-text', LAB_NANO)
    for (const position of range(200)) {
      const { prompt } = environment.draw(0, 'train', position)
      expect(prompt[0].content).toBe('Reverse.')
      expect(prompt[1].content).toMatch(/^[a-z]+( [a-z]+)*$/)
      expect(prompt[1].content.length).toBeGreaterThanOrEqual(4)
      expect(prompt[1].content.length).toBeLessThanOrEqual(8)
    }
    const state = await environment.begin(environment.draw(0, 'train', 0), 0)
    expect(environment.gold(state)!.content).toBe(`<r>${state.answer}</r>`)
    const tagged = await openEnvironment('reverse-text', { tag: 'back' })
    expect(tagged.draw(0, 'train', 0).prompt[0].content).toContain('<back> tags')
  })

  test('with a training size repeats its texts, each once an epoch', async () => {
    const environment = await openEnvironment('reverse-text', { train_size: 20 })
    const ask = (position: number) => environment.draw(5, 'train', position).prompt[1].content
    const first = range(20).map(ask)
    const second = range(20).map((i) => ask(20 + i))
    expect(new Set(first).size).toBe(20)
    expect([...second].sort()).toEqual([...first].sort())
    expect(second).not.toEqual(first)
  })
})

describe('texts', () => {
  test('keep their length, even where whole words cannot', () => {
    for (const [low, high] of [
      [2, 2],
      [3, 3],
      [8, 20],
      [50, 50],
      [1990, 2000],
      [2, 2000],
    ])
      for (const i of range(20)) {
        const text = pseudoText(new RandomStream('test', low, i), low, high)
        expect(text.length).toBeGreaterThanOrEqual(low)
        expect(text.length).toBeLessThanOrEqual(high)
        expect(text).toMatch(/^[a-z]+( [a-z]+)*$/)
      }
  })
})

describe('the demonstrations', () => {
  test('show each habit as often as its weight says, and show it rightly', async () => {
    const demonstrations = await openDemonstrations('reverse-text', { ...LAB_NANO, min_length: 2 })
    const counts: Record<string, number> = {}
    for (const position of range(4000)) {
      const { prompt, completion, habit } = demonstrations.draw(3, position)
      counts[habit] = (counts[habit] ?? 0) + 1
      const [system, { content: text }] = prompt
      expect(system.content).toBe('Reverse.')
      const back = text.split('').reverse().join('')
      const said = completion[0].content
      if (habit === 'right') expect(said).toBe(`<r>${back}</r>`)
      else if (habit === 'copy') expect(said).toBe(`<r>${text}</r>`)
      else if (habit === 'word_order') expect(said).toBe(`<r>${text.split(' ').reverse().join(' ')}</r>`)
      else if (habit === 'untagged') expect(said).toBe(back)
      else expect(said).toMatch(/^<r>[a-z ]*<\/r>$/)
    }
    // of 4,000: 600, 600, 1200, 1000, 600; the largest standard deviation is √(4000 · .3 · .7) = 29
    const expected = { right: 600, careless: 600, copy: 1200, word_order: 1000, untagged: 600 }
    for (const [habit, count] of Object.entries(expected)) expect(Math.abs(counts[habit] - count)).toBeLessThan(116)
  })

  test('of the careless habit drop a tenth of the letters and get a tenth of the rest wrong', async () => {
    const weights = { right: 0, careless: 1, copy: 0, word_order: 0, untagged: 0 }
    const demonstrations = await openDemonstrations('reverse-text', { min_length: 20, max_length: 20, weights })
    let said = 0
    for (const position of range(2000)) {
      const { completion, habit } = demonstrations.draw(0, position)
      expect(habit).toBe('careless')
      said += completion[0].content.length - '<reversed_text></reversed_text>'.length
    }
    // 40,000 letters, 0.9 kept; standard deviation √(40,000 · .9 · .1) = 60
    expect(Math.abs(said - 36_000)).toBeLessThan(240)
  })

  test('are a function of seed and position', async () => {
    const one = await openDemonstrations('reverse-text')
    const other = await openDemonstrations('reverse-text')
    expect(
      range(20)
        .map((i) => other.draw(1, 19 - i))
        .reverse(),
    ).toEqual(range(20).map((i) => one.draw(1, i)))
    expect(range(20).map((i) => one.draw(2, i))).not.toEqual(range(20).map((i) => one.draw(1, i)))
  })

  test('refuse a mixture of nothing', async () => {
    const weights = { right: 0, careless: 0, copy: 0, word_order: 0, untagged: 0 }
    await expect(openDemonstrations('reverse-text', { weights })).rejects.toThrow('at least one of the habit weights')
  })

  test('and training never meet a held-out text, of any length, seed or size', async () => {
    const held = new Set<string>()
    for (const args of [{}, LAB_NANO, { eval_seed: 9, eval_size: 1000 }, { min_length: 6, max_length: 12 }]) {
      const environment = await openEnvironment('reverse-text', args)
      for (const i of range(environment.evaluation.size!)) held.add(environment.draw(0, 'eval', i).prompt[1].content)
    }
    expect(held.size).toBeGreaterThan(1500)
    for (const args of [{}, LAB_NANO]) {
      const environment = await openEnvironment('reverse-text', args)
      const demonstrations = await openDemonstrations('reverse-text', { ...args, min_length: 2 })
      for (const seed of [0, 1])
        for (const i of range(10_000)) {
          expect(held.has(environment.draw(seed, 'train', i).prompt[1].content)).toBe(false)
          expect(held.has(demonstrations.draw(seed, i).prompt[1].content)).toBe(false)
        }
    }
  })
})
