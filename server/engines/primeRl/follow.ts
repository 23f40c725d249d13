// The events of a full-size run, drawn from what it writes to the shared disk. A cursor says how far each file has been
// told; from the same cursor the same events follow, whoever asks, so that a server may die between any two calls.

import type { RunConfig } from '../../../configs/schema.ts'
import type { RunDescription } from '../../../workers/protocol.ts'
import type { GivenEvent } from '../../store/events/eventFile.ts'
import { sizeOfFolder } from '../local/runFiles.ts'
import { exists, type RunLayout } from './layout.ts'
import { exitSaid, filesOf, readAcross } from './logs.ts'
import { type MetricsCursor, readMetrics, type StepRecord } from './metricsFile.ts'
import { type TokenTexts, tokenTexts } from './tokenTexts.ts'
import { readGroups } from './traces.ts'

export interface Followed {
  run: string
  attempt: number
  config: RunConfig
  layout: RunLayout
  /** What is told as the source of events: `slurm`. */
  source: string
  fromStep: number
  metricsFrom: number
  logsFrom: number
  /** Variables of every job, by the operator. */
  environment?: Record<string, string>
  /** Whether the job has begun, and whether it has ended: then nothing more is written. */
  begun: boolean
  over: boolean
}

interface Cursor {
  started: boolean
  metrics: MetricsCursor
  /** The newest checkpoint that has been told. */
  checkpoint: number
  /** How far the job's log has been searched for a component that died. */
  log: number
  /** Steps whose rollouts are still to be told. */
  samples: number[]
}

const MOST_STEPS_OF_SAMPLES = 2

export async function follow(
  run: Followed,
  text: string | null,
): Promise<{ events: GivenEvent[]; cursor: string | null }> {
  const cursor: Cursor = text ? JSON.parse(text) : first(run)
  const events: GivenEvent[] = []
  const { source, layout, config } = run
  const now = Date.now()
  if (!cursor.started && run.begun) {
    const spelled = (await tokenTexts(config, layout, run.environment)) !== null
    const notes = spelled ? [] : [unspelledSentence(config)]
    events.push({ kind: 'started', description: { ...descriptionOf(run), notes }, config, time: now, source })
    events.push({ kind: 'state', state: 'running', time: now, source })
    cursor.started = true
  }
  if (!cursor.started) return { events, cursor: text }

  const { steps, evaluations, cursor: metrics } = await readMetrics(layout.metrics, cursor.metrics, run.over)
  cursor.metrics = metrics
  for (const record of [...steps, ...evaluations].sort((a, b) => a.time - b.time))
    events.push(evaluations.includes(record) ? evaluationOf(record, source) : stepOf(record, source))
  cursor.samples.push(...steps.map(({ step }) => step))

  const told = cursor.samples.splice(0, MOST_STEPS_OF_SAMPLES)
  const texts = told.length > 0 ? await tokenTexts(config, layout, run.environment) : null
  for (const step of told) {
    const groups = await groupsOf(run, step, texts)
    if (groups.length > 0) events.push({ kind: 'samples', step, split: 'train', groups, time: now, source })
  }
  for (const { step, folder } of await layout.checkpoints()) {
    if (step <= cursor.checkpoint) continue
    cursor.checkpoint = step
    events.push({ kind: 'saved', save: { step, bytes: await sizeOfFolder(folder), kept: true }, time: now, source })
  }
  const died = await searchLog(run, cursor)
  if (died) events.push({ kind: 'note', level: 'error', sentence: failingSentence(died, config), time: now, source })
  return { events, cursor: JSON.stringify(cursor) }
}

const first = ({ metricsFrom, fromStep }: Followed): Cursor => ({
  ...{ started: false, metrics: { offset: metricsFrom, told: [] }, checkpoint: fromStep, log: 0, samples: [] },
})

function unspelledSentence({ model }: RunConfig): string {
  return `The samples show messages without their tokens until a tokenizer of ${model} can be read from the server; in the hub's cache it is found when the jobs' environment names HF_HOME on the shared disk.`
}

export function failingSentence({ component, code }: { component: string; code: number }, config: RunConfig): string {
  const slurm = config.remote.prime_rl.slurm as Record<string, unknown> | undefined
  const grace = typeof slurm?.cleanup_grace_period === 'number' ? slurm.cleanup_grace_period : 3600
  return `The ${component} ended with code ${code}: the run is failing. Its job may go on for up to ${Math.round(grace / 60)} minutes, so that checkpoints can be written; cancel it to give its GPUs back sooner.`
}

async function searchLog(run: Followed, cursor: Cursor) {
  const files = await filesOf(run.layout, run.attempt, run.logsFrom, 'job')
  const { bytes } = await readAcross(files, cursor.log, 256 * 1024)
  const end = bytes.lastIndexOf(10) + 1
  const said = exitSaid(bytes.toString('utf8', 0, end))
  cursor.log += end
  return said
}

/** The batch that was learned from; where a version writes no such file, all rollouts of the step. */
async function groupsOf({ layout, config }: Followed, step: number, texts: TokenTexts | null) {
  for (const subset of ['effective', 'all'] as const) {
    const path = layout.rollouts(step, 'train', subset)
    if (await exists(path)) return readGroups(path, config.batch_size, texts)
  }
  return []
}

function stepOf({ step, time, metrics }: StepRecord, source: string): GivenEvent {
  const total = metrics['time/step'] ?? 0
  const answer = metrics['time/wait_for_batch'] ?? 0
  return {
    kind: 'step',
    step,
    metrics,
    // Of the four phases, prime-rl times two from the trainer's side: waiting for a batch, and learning from it.
    seconds: { ask: 0, answer, judge: 0, learn: Math.max(0, total - answer), total },
    learned: metrics['optim/grad_norm'] !== undefined || metrics['loss/mean'] !== undefined,
    ...{ time, source },
  }
}

function evaluationOf({ step, time, metrics }: StepRecord, source: string): GivenEvent {
  const environments = new Set(Object.keys(metrics).map((key) => key.split('/')[1]))
  const environment = environments.size === 1 ? [...environments][0] : ''
  return { kind: 'evaluation', step, metrics, seconds: 0, environment, time, source }
}

function descriptionOf({ run, attempt, config, fromStep, source }: Followed): RunDescription {
  return {
    ...{ run, attempt, step: fromStep, maxSteps: config.max_steps, notes: [] },
    // What only the cluster knows of the model is not told in a file.
    model: { name: config.model, parameters: 0, trainableParameters: 0, layers: 0, width: 0, vocabulary: 0, hash: '' },
    device: {
      ...{ backend: 'cuda', adapter: `GPUs by ${source}`, software: false, features: [], memoryLimitBytes: null },
      selfTest: { passed: true, sentence: 'prime-rl checks its own devices.' },
    },
    capabilities: { pause: false, step: false, save: false, exportAdapter: false, tokens: true },
  }
}
