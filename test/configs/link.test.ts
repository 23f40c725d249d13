import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { difference, equal, withDifference } from '../../configs/difference.ts'
import { findRecipe, recipes } from '../../configs/index.ts'
import { LONGEST_LINK, readLink, toLink } from '../../configs/link.ts'
import { load } from '../../configs/load.ts'
import type { Table } from '../../configs/path.ts'
import type { RunConfig } from '../../configs/schema.ts'
import { toToml } from '../../configs/write.ts'
import { anyConfig, json } from './configs.ts'

const recipe = findRecipe('rl/reverse-text')!
const base = load(recipe.text).config!

function linkOf(config: RunConfig, from = recipe as typeof recipe | null): string {
  const made = toLink(config, from)
  if ('sentence' in made) throw new Error(made.sentence)
  return made.link
}

const changed = (change: (config: RunConfig) => void) => {
  const config = structuredClone(base)
  change(config)
  return config
}

describe('a link', () => {
  test('of an untouched recipe is its name', () => {
    expect(linkOf(base)).toMatch(/^recipe=rl\/reverse-text~[0-9a-f]{8}$/)
  })

  test('says only what differs, the seed included', () => {
    const link = linkOf(
      changed((config) => {
        config.seed = 7
        config.learning_rate = 5e-4
        config.env[0].args.max_length = 12
        config.sampling.stop = ['\n', '1']
      }),
    )
    expect(decodeURIComponent(link.split('&').slice(1).join('&'))).toBe(
      'seed=7&learning_rate=0.0005&sampling.stop=["\\n","1"]&env[0].args.max_length=12',
    )
  })

  test('takes a text as it is, unless it could be read as something else', () => {
    const link = linkOf(changed((config) => void Object.assign(config, { name: 'null', model: 'owner/model' })))
    expect(decodeURIComponent(link)).toContain('&model=owner/model&name="null"')
    expect(readLink(link, findRecipe).config).toMatchObject({ name: 'null', model: 'owner/model' })
  })

  test('says what is gone', () => {
    const withWandb = { id: 'mine', text: '[wandb]\nproject = "p"\n[[env]]\nid = "mine"\nname = "n"' }
    const config = load('[[env]]\nid = "mine"').config!
    const link = linkOf(config, { ...recipe, ...withWandb })
    expect(decodeURIComponent(link.split('&').slice(1).join('&'))).toBe('!env[0].name&!wandb')
    expect(readLink(link, () => withWandb).config).toEqual(config)
  })

  test('read again is the same config, whatever the config', () => {
    fc.assert(
      fc.property(anyConfig, fc.constantFrom(recipe, null, findRecipe('rl/reverse-text-nano')), (config, from) => {
        const made = toLink(config, from)
        if ('sentence' in made) return
        const read = readLink(`#${made.link}`, findRecipe)
        if (read.problems) throw new Error(read.problems[0].sentence)
        expect(equal(read.config, config)).toBe(true)
        expect(read.recipe).toBe(from?.id ?? null)
      }),
      { numRuns: 300 },
    )
  })

  test('that would be too long is not made, and not read', () => {
    const config = changed((each) => void Object.assign(each.env[0].args, { system_prompt: 'x'.repeat(LONGEST_LINK) }))
    const made = toLink(config, recipe)
    expect('sentence' in made && made.sentence).toMatch(
      /^A link to this config would take \d+ characters, and 8000 are the most/,
    )
    expect(readLink(`#name=${'x'.repeat(LONGEST_LINK)}`, findRecipe).problems?.[0].sentence).toContain(
      '8000 are the most',
    )
  })

  test('tells when its recipe is no longer the one it was made from', () => {
    const moved = { ...recipe, text: recipe.text.replace('max_steps = 40', 'max_steps = 41') }
    const { notes, config } = readLink(linkOf(base), () => moved)
    expect(config?.max_steps).toBe(41)
    expect(notes?.map(({ sentence }) => sentence).join()).toContain('has changed since this link was made')
    expect(readLink(linkOf(base), findRecipe).notes).toEqual([])
  })
})

describe('a bad link', () => {
  const ids = recipes.map(({ id }) => id)
  test.each(
    [
      [
        'recipe=rl/reverse-txt',
        'This link begins from the recipe rl/reverse-txt, which is not known here; did it mean rl/reverse-text?',
      ],
      ['learning_rate', 'This link is damaged at learning_rate: it is not name=value.'],
      ['seed=1&&batch_size=8', 'This link is damaged at : it is not name=value.'],
      ['learning_rate=%E0%A4%A', 'This link is damaged at learning_rate=%E0%A4%A: it is not name=value.'],
      ['a..b=1', 'This link is damaged at a..b=1: a..b is not a dotted path.'],
      [
        'env[4294967294].id=a',
        'This link is damaged at env[4294967294].id=a: env[4294967294].id is not a dotted path.',
      ],
      ['learnin_rate=1', 'Unknown key learnin_rate; did you mean learning_rate?'],
      ['__proto__.polluted=1', '__proto__ cannot be the name of a key; choose another.'],
      ['batch_size=many', 'batch_size must be a number, but it is the text "many".'],
      ['batch_size=100', 'batch_size = 100 cannot be split into groups of rollouts_per_example = 8; use 96 or 104.'],
    ].slice(0, 9),
  )('%s is a sentence', (link, sentence) => {
    expect(readLink(link, findRecipe, ids).problems?.map((problem) => problem.sentence)).toEqual([sentence])
    expect(({} as Table).polluted).toBeUndefined()
  })

  test('never throws, whatever it holds', () => {
    const piece = fc.oneof(
      fc.string(),
      fc.constantFrom(
        'env[0].id',
        'recipe',
        'rl/reverse-text',
        '=',
        '&',
        '!',
        '[1]',
        'env[4294967294]=1',
        'env[999]=1',
        '%',
        '"',
        '{',
      ),
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const read = readLink(pieces.join(''), findRecipe, ids)
        expect(read.problems === undefined || read.problems.every(({ sentence }) => sentence.length > 10)).toBe(true)
      }),
      { numRuns: 1000 },
    )
  })
})

describe('differences', () => {
  test('put upon the base give the other value, for any two tables', () => {
    const table = fc.dictionary(
      fc.string({ maxLength: 3 }).filter((key) => key !== '__proto__'),
      json,
      { maxKeys: 5 },
    ) as fc.Arbitrary<Table>
    fc.assert(
      fc.property(table, table, (a, b) => {
        expect(equal(withDifference(a, difference(a, b)), b)).toBe(true)
        expect(difference(a, a)).toEqual([])
      }),
    )
  })
})

describe('a config written as TOML', () => {
  test('loads to itself, whatever the config', () => {
    fc.assert(
      fc.property(anyConfig, fc.boolean(), (config, all) => {
        // TOML has no null inside args, so those of this test have none.
        const plain = withoutNulls(config)
        const read = load(toToml(plain, { all, comment: 'two\nlines' }), { format: 'toml' })
        expect(read.problems).toBeUndefined()
        expect(equal(read.config, plain)).toBe(true)
      }),
      { numRuns: 150 },
    )
  })

  test('says little', () => {
    expect(toToml(load('max_grad_norm = "None"\n[[env]]\nid = "mine"').config!)).toBe(
      [
        'model = "lab-tiny"',
        'seed = 0',
        'max_steps = 100',
        'batch_size = 128',
        'rollouts_per_example = 8',
        'learning_rate = 0.0001',
        'max_grad_norm = "None"',
        '',
        '[[env]]',
        'id = "mine"',
        '',
      ].join('\n'),
    )
  })
})

function withoutNulls(config: RunConfig): RunConfig {
  const plain = (table: Table) => JSON.parse(JSON.stringify(table), (_, value) => value ?? 0) as Table
  const env = config.env.map((each) => ({ ...each, args: plain(each.args) }))
  return { ...config, env, remote: { ...config.remote, hosted: plain(config.remote.hosted) } }
}
