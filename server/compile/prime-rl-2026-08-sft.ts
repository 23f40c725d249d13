// prime-rl's `sft` config of 2026-08, commit 559b447: what a supervised run is there. Of the knobs of a run with rewards it
// says that they do nothing; demonstrations come from a data set, never from an environment.

import { PRIME_RL_2026_08 } from '../../configs/dialects/prime-rl-2026-08.ts'
import type { RunConfig } from '../../configs/schema.ts'
import { knobs } from '../../configs/schema.ts'
import { isDefault, lost, made, type Outcome, parts, type Row, same, type Target } from './target.ts'
import { filtersThatCount, kept, learning, modelRow, noSecrets, saving, wandbRows } from './trainer.ts'

/** There the trainer is all there is, and its tables stand at the root. */
function atRoot(rows: Row[]): Row[] {
  const name = (path: string) => path.replace(/^trainer\./, '')
  const moved = ({ set, ...outcome }: Outcome): Outcome =>
    set ? { ...outcome, set: Object.fromEntries(Object.entries(set).map(([to, value]) => [name(to), value])) } : outcome
  return rows.map((row) => ({
    ...row,
    to: row.to === null ? null : name(row.to),
    carry: (config) => row.carry(config).map(moved),
  }))
}

const own: Row[] = [
  made('type', 'data.type', 'another program, `sft`, and the kind of its data', () => [
    { set: { 'data.type': 'sft' } },
  ]),
  same('name', 'run.name'),
  modelRow('renderer.name'),
  same('seed', 'data.seed', { how: 'the order of the data alone' }),
  same('max_steps', 'max_steps'),
  same('batch_size', 'data.batch_size'),
  made('micro_batch_size', 'data.micro_batch_size', 'the same, where it divides batch_size', (config) => {
    const { batch_size: batch, micro_batch_size: micro } = config
    if (batch % micro === 0) return [{ set: { 'data.micro_batch_size': micro } }]
    const why = `micro_batch_size = ${micro} does not divide batch_size = ${batch} and is left out; it changes memory, never the update.`
    return isDefault(config, 'micro_batch_size') ? [{ also: ['micro_batch_size'] }] : [{ act: 'note', why }]
  }),
  made('seq_len', 'data.seq_len', 'of the data and of the model', ({ seq_len: length }) => [
    { set: { 'data.seq_len': length, 'model.seq_len': length } },
  ]),
  noSecrets(),
  ...atRoot(learning()),
  made('data.name', 'data.name', 'the same; the gold answers of environments are refused', ({ data, env }) => {
    if (data.name !== null) return [{ set: { 'data.name': data.name } }]
    const from = env.length > 0 ? `the gold answers of ${env.map(({ id }) => id).join(', ')}` : 'a default of its own'
    const why = `data.name is not given, and ${from} cannot go along: prime-rl's sft learns from a data set. Name one of the Hugging Face Hub in data.name, with messages or prompt and completion in its rows.`
    return [{ act: 'refuse', why }]
  }),
  made('data.split', 'data.splits', 'a list of one', ({ data }) =>
    data.split === 'train' ? [] : [{ set: { 'data.splits': [data.split] } }],
  ),
  same('data.shuffle', 'data.shuffle', { there: true }),
  same('data.loss_mask', 'data.loss_mask'),
  ...parts('data.loss_mask', ...['system', 'user', 'assistant', 'tool'].map((role) => `data.loss_mask.${role}`)),
  lost('eval.interval', 'warn', 'evaluation during supervised runs is not written for prime-rl yet'),
  ...saving(),
  ...wandbRows('monitors.wandb'),
  made('remote.prime_rl', null, 'given back word for word where the version knows the key', () => []),
]

const said = new Set(own.map(({ knob }) => knob))
const rest: Row[] = knobs()
  .filter(({ path }) => !said.has(path))
  .map(({ path }) =>
    path.includes('[]')
      ? parts(path.slice(0, path.indexOf('[]')), path)[0]
      : path === 'pre_batch_filters'
        ? filtersThatCount('does nothing in a supervised run')
        : lost(path, 'note', 'it belongs to runs with rewards, or to this page'),
  )

/** The trainer's tables at the root, beside those that both programs have there; no orchestrator and no inference. */
const KEYS = PRIME_RL_2026_08.split('\n')
  .filter((line) => !/^(orchestrator|inference)\b/.test(line))
  .map((line) => line.replace(/^trainer: /, '(root): ').replace(/^trainer\./, ''))
  .join('\n')

export const PRIME_RL_SFT: Target = {
  id: 'prime-rl',
  title: "prime-rl's sft of 2026-08",
  pin: 'prime-rl 559b447, 2026-08-21',
  rows: [...own, ...rest],
  keys: KEYS,
  kept: (config: RunConfig) => {
    const { trainer: _, orchestrator: __, inference: ___, ...atTheRoot } = config.remote.prime_rl
    return atTheRoot
  },
  always: (config: RunConfig) => [
    {
      act: 'note',
      why: 'This is a config of the program `sft`: uv run sft @ sft.toml.',
      at: '',
    },
    kept(config, 'monitors.file.path') === undefined ? { set: { 'monitors.file.path': 'metrics.jsonl' } } : {},
    { also: ['remote.prime_rl'] },
  ],
  nullIsNone: true,
}
