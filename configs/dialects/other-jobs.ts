// `prime gepa` and `prime eval` files -> ours.

import type { Dialect } from './dialect.ts'

const SAMPLING = 'max_tokens temperature top_p top_k min_p repetition_penalty presence_penalty frequency_penalty stop'
const toSampling = Object.fromEntries(SAMPLING.split(' ').map((key) => [key, `sampling.${key}`]))
const kept = (keys: string) => Object.fromEntries(keys.split(' ').map((key) => [key, key]))

export const GEPA: Dialect = {
  name: 'prime gepa',
  prefixes: { gepa: '', sampling_args: 'sampling' },
  renames: {
    ...toSampling,
    'env[].env_id': 'env_id',
    'env[].id': 'env_id',
    'env.env_id': 'env_id',
    'env.id': 'env_id',
    id: 'env_id',
    max_total_rollouts: 'max_calls',
    max_metric_calls: 'max_calls',
    reflection_minibatch_size: 'minibatch_size',
    reflection_columns: 'state_columns',
    'sampling.max_completion_tokens': 'sampling.max_tokens',
  },
  tables: {
    'env[].args': (value) => ({ set: { env_args: value } }),
    'env.args': (value) => ({ set: { env_args: value } }),
    args: (value) => ({ set: { env_args: value } }),
  },
  keeps: kept('run_dir save no_save tui verbose api_base_url api_key_var headers env_dir_path'),
}

export const EVAL: Dialect = {
  name: 'prime eval',
  prefixes: { sampling_args: 'sampling' },
  renames: {
    ...toSampling,
    env_id: 'eval[0].id',
    'eval[].env_id': 'eval[].id',
    'ablation[].env_id': 'ablation[].id',
    'sampling.max_completion_tokens': 'sampling.max_tokens',
    'sampling.n': 'rollouts_per_example',
  },
  tables: {
    env_args: (value) => ({ set: { 'eval[0].args': value } }),
    'eval[].env_args': (value, to) => ({ set: { [to('eval[].args')]: value } }),
    'ablation[].env_args': (value, to) => ({ set: { [to('ablation[].args')]: value } }),
  },
  keeps: kept(
    'api_base_url api_key_var headers env_dir_path verbose tui debug resume hf_hub_dataset_name save_to_hf_hub max_retries',
  ),
}
