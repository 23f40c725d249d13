// What a config would become on a target, before anything is begun.

import { load } from '../../configs/load.ts'
import type { RunConfig } from '../../configs/schema.ts'
import type { Engine } from '../engines/engine.ts'
import type { RunsContext } from './context.ts'
import { measurementsOf } from './measurements.ts'
import { Refused } from './problem.ts'
import type { PreviewRequest } from './requests.ts'
import type { Preview } from './views.ts'

export function engineOf(context: RunsContext, target: string): Engine {
  const engine = context.engines.get(target)
  if (engine) return engine
  const known = [...context.engines.keys()].join(', ') || 'none'
  throw new Refused(422, `This server has no target "${target}"; it has ${known}.`)
}

export function loadConfig({ config, set }: Pick<PreviewRequest, 'config' | 'set'>) {
  return load(config as string | Parameters<typeof load>[0], { set })
}

export async function preview(context: RunsContext, request: PreviewRequest): Promise<Preview> {
  const { target } = request
  const engine = engineOf(context, target)
  const loaded = loadConfig(request)
  if (loaded.problems) {
    const none = { config: null, notes: [], refusals: [], differences: [], size: null, time: null }
    return { target, problems: loaded.problems, ...none }
  }
  const { config, notes } = loaded
  return {
    target,
    config,
    problems: [],
    notes,
    refusals: engine.refusals(config),
    differences: engine.notes(config),
    size: sizeOf(config),
    time: await timeOf(context, target, config),
  }
}

function sizeOf(config: RunConfig): NonNullable<Preview['size']> {
  const { max_steps, batch_size, seq_len } = config
  return { steps: max_steps, rolloutsPerStep: batch_size, mostTokens: max_steps * batch_size * seq_len }
}

async function timeOf(context: RunsContext, target: string, config: RunConfig): Promise<Preview['time']> {
  const measurement = (await measurementsOf(context, target)).find(({ model }) => model === config.model)
  if (!measurement || measurement.stepTokensPerSecond <= 0) return null
  return { mostSeconds: sizeOf(config).mostTokens / measurement.stepTokensPerSecond, measurement }
}
