// slurmrestd's API from Slurm 23.11 on: environments and states are lists, numbers may be wrapped.

import { isTable } from '../../../configs/path.ts'
import { numberOf } from './answer.ts'
import type { SlurmDialect } from './dialect.ts'
import { submission } from './submission.ts'

const wrapped = (number: number) => ({ set: true, infinite: false, number })

export const V0040: SlurmDialect = {
  version: 'v0.0.40',

  encode: (spec) =>
    submission(spec, {
      nodes: String(spec.nodes),
      ...(spec.gres ? { tres_per_node: `gres/${spec.gres}` } : {}),
      ...(spec.exclusive ? { shared: ['none'] } : {}),
      ...(spec.timeLimit ? { time_limit: wrapped(spec.timeLimit) } : {}),
      ...(spec.signal ? signalOf(spec.signal) : {}),
      open_mode: ['APPEND'],
      environment: Object.entries(spec.environment).map(([name, value]) => `${name}=${value}`),
    }),

  exitOf({ exit_code: exit, end_time: end }) {
    const over = (numberOf(end) ?? 0) > 0
    if (!isTable(exit) || !over) return { exitCode: null, signal: null }
    const signal = isTable(exit.signal) ? numberOf(exit.signal.id ?? exit.signal.signal_id) : numberOf(exit.signal)
    return { exitCode: numberOf(exit.return_code), signal: signal === 0 ? null : signal }
  },
}

/** `B:TERM@30`. */
function signalOf(text: string): Record<string, unknown> {
  const [, batch, name, seconds] = text.match(/^(B:)?(\w+?)(?:@(\d+))?$/) ?? []
  if (!name) return { kill_warning_signal: text }
  return {
    kill_warning_signal: name,
    ...(batch ? { kill_warning_flags: ['BATCH_JOB'] } : {}),
    ...(seconds ? { kill_warning_delay: wrapped(Number(seconds)) } : {}),
  }
}
