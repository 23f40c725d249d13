// Rows that every target has in the same words: what is only of this device, and what nobody else can do.
// Knows no target by name.

import { knobs } from '../../configs/schema.ts'
import { lost, made, parts, type Row } from './target.ts'

/** `type = "sft"` learns without rollouts; the three targets are about rollouts. */
export function onlyRl(whose: string): Row {
  return made('type', null, 'rl alone', ({ type }) =>
    type === 'rl'
      ? []
      : [
          {
            act: 'refuse',
            why: `type = "${type}" cannot go along: ${whose}. Its data, loss masks and steps are written for another program.`,
          },
        ],
  )
}

const ABOUT: Record<string, string> = {
  'browser.hub': 'models are found there by HF_ENDPOINT',
  'browser.in_flight_updates':
    'it is about sampling beside learning here; prime-rl always changes its weights in flight',
  'browser.rescored_groups': "it is about this page's token view",
  'browser.environment_deadline_ms': 'it is about environments in this tab',
}

/** Knobs of this device and of how it works through a step: they change time and memory, never what is learned. */
export const DEVICE: Row[] = [
  lost('micro_batch_size', 'note', 'sequences are packed by tokens there; it changes memory, never the update'),
  ...knobs()
    .filter(({ path }) => path.startsWith('browser.'))
    .map(({ path }) => lost(path, 'note', ABOUT[path] ?? 'it is about this device')),
  made('remote.prime_rl', null, 'given back word for word where the version knows the key', () => []),
  lost('remote.vf_rl', 'note', 'its fields are of vf-rl and the trainers before it'),
]

/** What belongs to supervised runs, and says nothing in a run with rewards. */
export const SUPERVISED: Row[] = [
  ...['name', 'split', 'shuffle'].map((key) => lost(`data.${key}`, 'note', 'it is read by supervised runs alone')),
  lost('data.loss_mask', 'note', 'it is read by supervised runs alone'),
  ...parts('data.loss_mask', ...['system', 'user', 'assistant', 'tool'].map((role) => `data.loss_mask.${role}`)),
]

/** What changes the objective itself and exists in no version of prime-rl. */
export const ONLY_HERE: Row[] = [
  lost('num_iterations', 'refuse', 'a batch is learned from once there'),
  lost(
    'mask_truncated_completions',
    'refuse',
    'cut-off completions are learned from there, and no switch leaves them out',
  ),
  lost('zero_truncated_completions', 'refuse', 'cut-off completions keep their reward there, and no switch takes it'),
  lost('advantage.divide_by_deviation', 'refuse', 'advantages are never divided by the deviation of their group there'),
  lost(
    'kl_penalty.enabled',
    'refuse',
    'no reference policy is held there; only loss.kl_tau pulls, and it pulls to the policy that sampled',
  ),
  ...['beta', 'target_kl', 'reference_update_steps'].map((key) =>
    lost(
      `kl_penalty.${key}`,
      'note',
      'there is no reference policy',
      (value, config) => config.kl_penalty.enabled || value === (key === 'beta' ? 0.1 : null),
    ),
  ),
  lost('loss.entropy_coefficient', 'refuse', 'entropy is only measured there, never rewarded'),
  ...['clip_low', 'clip_high'].map((key) =>
    lost(
      `loss.${key}`,
      'note',
      'it belongs to loss.type = "ppo"',
      (value, config) => config.loss.type === 'ppo' || value === 0.2,
    ),
  ),
  made(
    'difficulty_filter.enabled',
    null,
    'refused where it filters: no filter by variance and mean exists there',
    (config) => {
      const { enabled, min_reward_variance: variance, min_reward: low, max_reward: high } = config.difficulty_filter
      if (!enabled) return []
      if (variance === 0 && low === null && high === null)
        return [{ act: 'note', why: 'difficulty_filter has no bound, so nothing is lost without it.' }]
      return [
        {
          act: 'refuse',
          why: 'difficulty_filter.enabled cannot go along: there, groups are not filtered by the variance and mean of their rewards. Use curriculum.advantage_range or buffer.online_difficulty_filtering.',
        },
      ]
    },
  ),
  ...['min_reward_variance', 'min_reward', 'max_reward'].map((key) =>
    lost(
      `difficulty_filter.${key}`,
      'note',
      'difficulty_filter is off',
      (value, config) => config.difficulty_filter.enabled || value === (key === 'min_reward_variance' ? 0 : null),
    ),
  ),
]

/** Fields of knobs that go along, or are lost, as a whole. */
export const WITHIN = {
  'sampling.temp_scheduler': fields('sampling.temp_scheduler', '.', 'type start end total_steps'),
  'advantage.length_penalty': fields('advantage.length_penalty', '.', 'output input turns'),
  'curriculum.advantage_range': fields('curriculum.advantage_range', '.', 'reject_min reject_max'),
  pre_batch_filters: fields(
    'pre_batch_filters',
    '[].',
    'type enforce token_id_threshold logprob_offset window prob_threshold',
  ),
}

function fields(whole: string, between: string, names: string): Row[] {
  return parts(whole, ...names.split(' ').map((name) => `${whole}${between}${name}`))
}
