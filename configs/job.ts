// Which job a file describes, where it does not say so: by the keys that only one of them has.

import { isTable, type Table } from './path.ts'

export type FileJob = 'rl' | 'sft' | 'eval' | 'gepa' | 'endpoints'

const GEPA_KEYS = [
  'gepa',
  'reflection_model',
  'max_calls',
  'max_total_rollouts',
  'num_val',
  'minibatch_size',
  'perfect_score',
]
const RL_KEYS = ['max_steps', 'orchestrator', 'trainer', 'rollouts_per_step', 'learning_rate', 'batch_size']

export function jobOf(file: Table): FileJob {
  const { type } = file
  if (type === 'gepa' || type === 'eval' || type === 'sft') return type
  if (type !== undefined) return 'rl'
  if (Array.isArray(file.endpoint)) return 'endpoints'
  if (Array.isArray(file.eval) || Array.isArray(file.ablation)) return 'eval'
  if (GEPA_KEYS.some((key) => file[key] !== undefined)) return 'gepa'
  if (file.env_id !== undefined && !RL_KEYS.some((key) => file[key] !== undefined)) return 'eval'
  const nested = file.orchestrator !== undefined || file.env !== undefined || file.sampling !== undefined
  return isTable(file.data) && !nested ? 'sft' : 'rl'
}

export const JOB_NAMES: Record<FileJob, string> = {
  rl: 'an RL run',
  sft: 'a supervised run',
  eval: 'an evaluation',
  gepa: 'a prompt optimisation (GEPA)',
  endpoints: 'a list of endpoints',
}
