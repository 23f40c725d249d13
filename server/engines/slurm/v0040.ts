// slurmrestd's API from Slurm 23.11 on: environments and states are lists, numbers may be wrapped.

import { isTable } from '../../../configs/path.ts'
import { numberOf } from './answer.ts'
import type { SlurmDialect } from './dialect.ts'

const wrapped = (number: number) => ({ set: true, infinite: false, number })

export const V0040: SlurmDialect = {
  version: 'v0.0.40',

  encode: (spec) => ({
    script: spec.script,
    job: {
      name: spec.name,
      ...(spec.partition ? { partition: spec.partition } : {}),
      ...(spec.account ? { account: spec.account } : {}),
      nodes: String(spec.nodes),
      tasks: spec.nodes * spec.tasksPerNode,
      tasks_per_node: spec.tasksPerNode,
      ...(spec.cpusPerTask ? { cpus_per_task: spec.cpusPerTask } : {}),
      ...(spec.gres ? { tres_per_node: `gres/${spec.gres}` } : {}),
      ...(spec.exclusive ? { shared: ['none'] } : {}),
      ...(spec.timeLimit ? { time_limit: wrapped(spec.timeLimit) } : {}),
      ...(spec.nodelist ? { required_nodes: spec.nodelist.split(',') } : {}),
      ...(spec.exclude ? { excluded_nodes: spec.exclude.split(',') } : {}),
      ...(spec.signal ? signalOf(spec.signal) : {}),
      current_working_directory: spec.workingDirectory,
      standard_output: spec.output,
      standard_error: spec.output,
      open_mode: ['APPEND'],
      comment: spec.comment,
      environment: Object.entries(spec.environment).map(([name, value]) => `${name}=${value}`),
      requeue: spec.requeue,
      hold: spec.hold,
    },
  }),

  release: { hold: false },

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
