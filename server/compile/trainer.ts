// Rows about the policy and its optimizer, and what both versions of prime-rl take in the same tables.
// Knows nothing of rollouts and environments.

import { getAt, parsePath } from '../../configs/path.ts'
import type { RunConfig } from '../../configs/schema.ts'
import { DEVICE, ONLY_HERE, SUPERVISED } from './shares.ts'
import { isDefault, lost, made, type Outcome, offOrRefused, type Row, same, when } from './target.ts'

const OPTIM = 'trainer.optim'
const SCHEDULER = 'trainer.scheduler'
const LORA = 'trainer.model.lora'

/** A checkpoint that a view can resume from, where the file leaves the choice open. */
const CHECKPOINT_EVERY = 50

/** A line of the export holds seventeen lists of one entry per token, as compact JSON of 32-bit numbers. */
export const EXPORTED_BYTES_PER_TOKEN = 203

/** What the file already says in prime-rl's own words. */
export const kept = (config: RunConfig, path: string): unknown => getAt(config.remote.prime_rl, parsePath(path) ?? [])

/** Algorithms that only prime-rl knows are kept as they were written. */
export const algorithmIsTheirs = (config: RunConfig): boolean => kept(config, 'orchestrator.algo.type') !== undefined

export const isBundled = (model: string): boolean => /^lab-[a-z0-9]+$/.test(model)

/** A bundled model is a folder in Hugging Face layout. `renderer`: who writes its prompts, where that has to be said. */
export function modelRow(renderer = 'orchestrator.renderer.name'): Row {
  return made('model', 'model.name', 'the same; a bundled model by its folder', (config) => {
    const { model } = config
    if (!isBundled(model)) return [{ set: { 'model.name': model } }]
    const said = renderer && kept(config, renderer) === undefined
    return [
      {
        set: { 'model.name': `models/${model}`, ...(said ? { [renderer]: 'default' } : {}) },
        act: 'warn',
        why: `model = "${model}" is the folder models/${model} there: copy it into the project on the cluster, or name a model of the Hugging Face Hub for a full-size run.`,
        also: renderer ? [`remote.prime_rl.${renderer.replace(/\.name$/, '')}`] : [],
      },
    ]
  })
}

const ownOptimizer = (config: RunConfig): boolean => kept(config, `${OPTIM}.type`) === undefined
const optimizerIs =
  (...types: string[]) =>
  (config: RunConfig) =>
    ownOptimizer(config) && types.includes(config.optimizer.type)

export function learning(): Row[] {
  return [
    same('learning_rate', `${OPTIM}.lr`),
    same('max_grad_norm', `${OPTIM}.max_norm`, { there: 1 }),
    made('optimizer.type', `${OPTIM}.type`, 'the same', (config) =>
      ownOptimizer(config) && config.optimizer.type !== 'adamw'
        ? [{ set: { [`${OPTIM}.type`]: config.optimizer.type } }]
        : [],
    ),
    ...when(optimizerIs('adamw', 'muon'), 'with this optimizer', [
      same('optimizer.beta1', `${OPTIM}.betas1`, { there: 0.9 }),
      same('optimizer.beta2', `${OPTIM}.betas2`, { there: 0.999 }),
    ]),
    lost('optimizer.epsilon', 'warn', "epsilon is PyTorch's 1e-8 there"),
    same('optimizer.weight_decay', `${OPTIM}.weight_decay`, { there: 0.01 }),
    made('optimizer.momentum', `${OPTIM}.momentum`, "SGD's momentum, Muon's mu", (config) => {
      const { type, momentum } = config.optimizer
      if (momentum === null) return []
      if (type === 'adamw' || !ownOptimizer(config))
        return [{ act: 'note', why: 'optimizer.momentum does nothing with this optimizer, and is left out.' }]
      return [{ set: { [`${OPTIM}.${type === 'muon' ? 'mu' : 'momentum'}`]: momentum } }]
    }),
    ...when(optimizerIs('sgd'), 'with this optimizer', [
      same('optimizer.nesterov', `${OPTIM}.nesterov`, { there: true }),
    ]),
    ...schedule(),
    ...adapters(),
  ]
}

// There a constant rate knows no warm-up; a linear schedule without decay is the same rate at every step.
function schedule(): Row[] {
  const isRamp = ({ scheduler }: RunConfig) => scheduler.type === 'constant' && scheduler.warmup_steps > 0
  const warms = (config: RunConfig) => config.scheduler.type !== 'constant' || isRamp(config)
  return [
    made(
      'scheduler.type',
      `${SCHEDULER}.type`,
      'the same; constant with a warm-up is linear without decay',
      (config) => {
        if (isRamp(config)) {
          return [
            {
              set: { [`${SCHEDULER}.type`]: 'linear', [`${SCHEDULER}.decay_steps`]: 0 },
              act: 'note',
              why: 'scheduler.type = "constant" with a warm-up is said as linear with decay_steps = 0 there: the rate is the same at every step.',
            },
          ]
        }
        return config.scheduler.type === 'constant' ? [] : [{ set: { [`${SCHEDULER}.type`]: config.scheduler.type } }]
      },
    ),
    ...when(warms, 'with this schedule', [same('scheduler.warmup_steps', `${SCHEDULER}.warmup_steps`)]),
    ...when(({ scheduler }) => scheduler.type === 'linear', 'with this schedule', [
      same('scheduler.decay_steps', `${SCHEDULER}.decay_steps`),
    ]),
    ...when(({ scheduler }) => scheduler.type !== 'constant', 'with this schedule', [
      same('scheduler.min_lr', `${SCHEDULER}.min_lr`, { there: 0 }),
    ]),
  ]
}

function adapters(): Row[] {
  return [
    made('lora.enabled', LORA, 'the table [trainer.model.lora]; without it every weight is trained', ({ lora }) =>
      lora.enabled
        ? []
        : [{ act: 'note', why: 'lora.enabled = false trains every weight: there is no [trainer.model.lora] table.' }],
    ),
    ...when(({ lora }) => lora.enabled, 'while lora.enabled = false', [
      same('lora.r', `${LORA}.rank`, { there: 16 }),
      made('lora.alpha', `${LORA}.alpha`, 'the same; with use_rslora times √r', (config) => {
        const { alpha, r, use_rslora: stabilised } = config.lora
        // alpha / √r = (alpha · √r) / r
        if (stabilised) return [{ set: { [`${LORA}.alpha`]: alpha * Math.sqrt(r) } }]
        return isDefault(config, 'lora.alpha') && alpha === 32 ? [] : [{ set: { [`${LORA}.alpha`]: alpha } }]
      }),
      made('lora.use_rslora', null, 'said by alpha × √r', ({ lora }) =>
        lora.use_rslora
          ? [
              {
                act: 'note',
                why: `lora.use_rslora is said by alpha there: ${lora.alpha} × √${lora.r}, which is divided by the rank.`,
                also: ['lora.alpha'],
              },
            ]
          : [],
      ),
      same('lora.dropout', `${LORA}.dropout`, { there: 0 }),
      same('lora.target_modules', `${LORA}.target_modules`),
      same('lora.modules_to_save', `${LORA}.modules_to_save`, { there: [] }),
    ]),
  ]
}

/** Checkpoints are off there unless asked for, and a run without them cannot be resumed. */
export function saving(): Row[] {
  return [
    made(
      'checkpointing.save_every_n_steps',
      'ckpt.interval',
      `the same; every ${CHECKPOINT_EVERY} steps unless told`,
      (config) => {
        const every = config.checkpointing.save_every_n_steps
        if (every !== null) return [{ set: { 'ckpt.interval': every } }]
        const chosen =
          kept(config, 'ckpt.interval') === undefined ? Math.min(CHECKPOINT_EVERY, config.max_steps) : undefined
        return [
          {
            set: { 'ckpt.interval': chosen },
            act: 'note',
            why: `Checkpoints are switched on, every ${chosen} steps: there a run keeps none unless asked, and could not be resumed.`,
            at: '',
            also: ['checkpointing.save_every_n_steps'],
          },
        ]
      },
    ),
    same('checkpointing.keep_n_checkpoints', 'ckpt.keep_last', { as: (value) => value ?? undefined, there: undefined }),
    same('checkpointing.keep_every_n_steps', 'ckpt.keep_interval', {
      as: (value) => value ?? undefined,
      there: undefined,
    }),
  ]
}

/** Bytes that the export can reach over a whole run: prompts are written too, so sequences are taken at their longest. */
function tokenExportBytes(config: RunConfig): number {
  return config.batch_size * config.seq_len * config.max_steps * EXPORTED_BYTES_PER_TOKEN
}

export function tokenExport(config: RunConfig): Outcome {
  const path = 'trainer.enable_token_export'
  if (kept(config, path) !== undefined) return {}
  return {
    set: { [path]: true },
    act: 'note',
    why: `The export of sampled tokens is switched on, for the samples view: up to ${bytesText(tokenExportBytes(config))} over the run (${config.batch_size} rollouts × seq_len = ${config.seq_len} tokens × ${config.max_steps} steps × ${EXPORTED_BYTES_PER_TOKEN} bytes).`,
    at: '',
    also: ['remote.prime_rl.trainer.enable_token_export'],
  }
}

function bytesText(bytes: number): string {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB', 'PB']
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3))
  return `${Number((bytes / 1000 ** power).toPrecision(2))} ${units[power]}`
}

/** An empty [wandb] is a wish too: log there, under default names. */
export function wandbRows(base: string, rest: string[] = ['name', 'entity', 'group', 'tags', 'offline']): Row[] {
  const project = made('wandb.project', `${base}.project`, 'another name', ({ wandb }) =>
    wandb === undefined ? [] : [{ set: { [base]: {} } }, { set: { [`${base}.project`]: wandb.project } }],
  )
  return [project, ...rest.map((key) => same(`wandb.${key}`, `${base}.${key}`))]
}

/** Both versions sample for training from all that the policy might say. */
export function wholeDistribution(): Row[] {
  const how = (fixed: string) => `prime-rl samples from the whole distribution for training (${fixed})`
  return [
    lost('sampling.top_p', 'refuse', how('top_p is fixed at 1')),
    offOrRefused('sampling.top_k', 0, how('top_k is fixed at −1')),
    lost('sampling.min_p', 'refuse', how('min_p is fixed at 0')),
  ]
}

/** `when` says since or until when prime-rl has had no such filter. */
export function filtersThatCount(when: string): Row {
  return made('pre_batch_filters', null, 'refused where they enforce, noted where they count', (config) => {
    if (config.pre_batch_filters.length === 0) return []
    const enforced = config.pre_batch_filters.filter(({ enforce }) => enforce).map(({ type }) => type)
    if (enforced.length === 0)
      return [{ act: 'note', why: 'pre_batch_filters only count here, and have no counterpart there.' }]
    const why = `pre_batch_filters cannot go along: the ${enforced.join(' and ')} filter ${when}.`
    return [{ act: 'refuse', why }]
  })
}

export function noSecrets(): Row {
  return lost('env_files', 'warn', 'a config carries no secrets; put the keys into the environment of the cluster')
}

/** What ends the table of either version: saving, reporting, and what is only of this repository. */
export function closing(wandb: string): Row[] {
  return [
    ...saving(),
    ...['interval', 'keep_last'].map((key) =>
      lost(`adapters.${key}`, 'note', 'an adapter is written for every step there, and checkpoints hold it'),
    ),
    ...wandbRows(wandb),
    ...ONLY_HERE,
    ...SUPERVISED,
    ...DEVICE,
    lost('remote.hosted', 'note', 'its fields are of Hosted Training'),
  ]
}
