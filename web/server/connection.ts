// Runs on the server that sent this page, as the page knows runs.

import type { RunDetails, RunStatus, RunView } from '../../server/runs/views.ts'
import type { Connection, RunLine, Runs } from '../connect.ts'
import { runName } from '../runName.ts'
import { adapterFiles, fetchArtifacts, listArtifacts } from './artifacts.ts'
import { json } from './ask.ts'
import { answer, api } from './client.ts'
import { fetchGroups } from './rollouts.ts'
import { type Line, openServerTrainer } from './trainer.ts'

export interface ServerLine extends Line {
  /** Which of the server's engines the next run goes to. */
  engine(): string
}

export function serverConnection(line: ServerLine): Connection {
  return {
    kind: 'server',
    place: `The server at ${location.host}`,
    runs: async () => runs,
    async begin(config, recipe) {
      const body = { target: line.engine(), config, name: runName(config, recipe) }
      // The same key again, if the answer is lost on its way, is the same run.
      const headers = { 'idempotency-key': crypto.randomUUID() }
      return (await answer(api.runs.$post(undefined, { init: json(body, { headers }) }))).id
    },
    open: async () => openServerTrainer(line),
  }
}

/** As they were when they were last listed. */
let listed = new Map<string, RunView>()

const runs: Runs = {
  async list() {
    const { runs } = await answer(api.runs.$get())
    listed = new Map(runs.map((view) => [view.id, view]))
    return runs.map(lineOf)
  },
  async config(run) {
    return (await details(run)).config
  },
  async files(run) {
    const view = listed.get(run) ?? (await details(run))
    const goesOn = isEnd(view.state) && view.step < view.maxSteps
    return { bytes: view.bytes, checkpoints: [], savedStep: goesOn ? view.step : null }
  },
  // Told by following it.
  events: async () => [],
  async samples(run, step, split) {
    const groups = await fetchGroups(run, step, split)
    return { run, attempt: 0, seq: 0, time: 0, source: 'server', kind: 'samples', step, split, groups }
  },
  async checkpoint(run, step) {
    const artifacts = await listArtifacts(run)
    return fetchArtifacts(
      run,
      artifacts.filter((one) => one.kind === 'checkpoint' && one.step === step),
    )
  },
  adapter: adapterFiles,
  async remove(run) {
    await api.runs[':id'].$delete({ param: { id: run } })
  },
  async history(run) {
    const { createdAt, endedAt, reason, queuePosition, attempts, pricePerGpuHour, at } = await details(run)
    return { createdAt, endedAt, reason, queuePosition, attempts, pricePerGpuHour, aheadMs: at - Date.now() }
  },
  usage: async () => ({ usedBytes: null, quotaBytes: null }),
  isWritten: async () => false,
}

function details(run: string): Promise<RunDetails> {
  return answer(api.runs[':id'].$get({ param: { id: run } })) as Promise<RunDetails>
}

function lineOf(view: RunView): RunLine {
  return {
    run: view.id,
    name: view.name,
    model: view.model,
    state: STATES[view.state],
    reason: view.reason,
    standing: view.cancelling ? 'stopping' : view.state.replaceAll('_', ' '),
    step: view.step,
    maxSteps: view.maxSteps,
    created: view.createdAt,
    updated: view.updatedAt,
  }
}

const STATES: Record<RunStatus, RunLine['state']> = {
  queued: 'loading',
  starting: 'loading',
  running: 'running',
  unknown: 'running',
  succeeded: 'finished',
  failed: 'failed',
  cancelled: 'stopped',
  timed_out: 'failed',
  node_lost: 'failed',
}

function isEnd(state: RunStatus): boolean {
  return ['finished', 'stopped', 'failed'].includes(STATES[state])
}
