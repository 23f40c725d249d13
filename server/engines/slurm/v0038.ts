// slurmrestd's API of Slurm 22.05, as Debian 12 has it.

import type { SlurmDialect } from './dialect.ts'
import { submission } from './submission.ts'

export const V0038: SlurmDialect = {
  version: 'v0.0.38',

  encode: (spec) =>
    submission(spec, {
      nodes: [spec.nodes, spec.nodes],
      ...(spec.gres ? { gres: spec.gres } : {}),
      // Its own schema's "true" is refused.
      ...(spec.exclusive ? { exclusive: 'exclusive' } : {}),
      ...(spec.timeLimit ? { time_limit: spec.timeLimit } : {}),
      // Its parser knows no `B:`: the steps of the job are told, in the place of its shell.
      ...(spec.signal ? { signal: spec.signal.replace(/^B:/, '') } : {}),
      // A requeued job goes on writing where it was.
      open_mode: 'append',
      environment: spec.environment,
    }),

  // The raw wait status: exit 3 is 3 << 8, ended by signal 9 is 9.
  exitOf({ exit_code: status, end_time: end }) {
    if (typeof status !== 'number' || !(Number(end) > 0)) return { exitCode: null, signal: null }
    const signal = status & 0x7f
    return { exitCode: (status >> 8) & 0xff, signal: signal === 0 ? null : signal }
  },
}
