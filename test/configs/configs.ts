// Any config that loads, for property tests: drawn from the knobs themselves.

import fc from 'fast-check'
import type { Knob } from '../../configs/knob.ts'
import { load } from '../../configs/load.ts'
import { parsePath, setAt, type Table } from '../../configs/path.ts'
import { knobs, type RunConfig } from '../../configs/schema.ts'

const positive = (value: unknown): unknown => JSON.parse(JSON.stringify(value), (_, inner) => (inner === 0 ? 0 : inner))
const withoutProto = (value: unknown): boolean => !JSON.stringify(value).includes('__proto__')

/** Any JSON value, without −0 and without the one key that JavaScript keeps for itself. */
export const json: fc.Arbitrary<unknown> = fc.jsonValue({ maxDepth: 3 }).map(positive).filter(withoutProto)

function valuesOf(knob: Knob): fc.Arbitrary<unknown> {
  const low = knob.minimum ?? -1000
  const high = knob.maximum ?? 100_000
  switch (knob.type) {
    case 'boolean':
      return fc.boolean()
    case 'choice':
      return fc.constantFrom(...knob.choices!)
    case 'integer':
      return fc.integer({ min: low, max: high })
    case 'number':
      return fc
        .double({
          min: low,
          max: high,
          minExcluded: knob.exclusiveMinimum,
          maxExcluded: knob.exclusiveMaximum,
          noNaN: true,
        })
        .map((value) => value + 0)
    case 'list':
      return fc.array(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 3 })
    case 'string':
      // The one text that is not free.
      if (knob.path === 'browser.hub') return fc.webUrl({ withQueryParameters: false })
      return fc.string({ minLength: 1, unit: 'binary' }).filter((text) => !/^(none|null)$/i.test(text))
    default:
      return fc.constant({})
  }
}

// Tied to one another by checks, or tables and lists with a shape of their own; set by hand below or left alone.
const TIED =
  /^(type|batch_size|rollouts_per_example|max_concurrent|workers_per_env|max_steps|seq_len|learning_rate)$|^scheduler|_threshold|^difficulty_filter\.m|temp_scheduler|advantage_range|length_penalty|thinking|effort|_tokens$|\[\]|^env$|^eval\.env$|^pre_batch|^remote|extra_body|sampling\.temperature|loss_mask$/

const free = knobs().filter((knob) => !TIED.test(knob.path))

const freeKnobs = fc
  .subarray(free, { maxLength: 12 })
  .chain((chosen) =>
    fc.tuple(
      ...chosen.map((knob) =>
        fc.tuple(fc.constant(knob.path), knob.nullable ? fc.option(valuesOf(knob)) : valuesOf(knob)),
      ),
    ),
  )

const environment = fc.record(
  {
    id: fc.constant('owner/mine'),
    args: fc.dictionary(
      fc.string({ unit: 'binary' }).filter((key) => key !== '__proto__'),
      json,
      { maxKeys: 4 },
    ),
    ratio: fc.double({ min: 0.01, max: 100, noNaN: true }),
  },
  { requiredKeys: ['id'] },
)

export const anyConfig: fc.Arbitrary<RunConfig> = fc
  .record({
    group: fc.integer({ min: 2, max: 64 }),
    prompts: fc.integer({ min: 1, max: 64 }),
    set: freeKnobs,
    environments: fc.array(environment, { maxLength: 3 }),
    kept: fc.dictionary(
      fc.string({ maxLength: 5 }).filter((key) => key !== '__proto__'),
      json,
      { maxKeys: 3 },
    ),
    wandb: fc.option(fc.record({ project: fc.string() }), { nil: undefined }),
  })
  .map(({ group, prompts, set, environments, kept, wandb }) => {
    const file: Table = {
      rollouts_per_example: group,
      batch_size: group * prompts,
      max_steps: 50,
      env: environments.map((each, i) => ({ ...each, name: `e${i}` })),
      remote: { hosted: kept },
    }
    if (wandb) file.wandb = wandb
    for (const [path, value] of set) setAt(file, parsePath(path)!, value)
    const loaded = load(file)
    if (loaded.problems)
      throw new Error(`${JSON.stringify(file)}: ${loaded.problems.map((each) => each.sentence).join(' ')}`)
    return loaded.config
  })
