// What this trainer says about a config before it begins: why it cannot run, and what it does otherwise than written.
// Knobs that nothing here obeys are noted when the config is loaded, not here.

import type { RunConfig } from '../../configs/schema.ts'

/** Why a config cannot be trained here; null when it can. */
export function refusal(config: RunConfig): string | null {
  const { type, sampling, lora, kl_penalty, loss, optimizer, batch_size, rollouts_per_example } = config
  const { max_async_level, max_off_policy_steps } = config
  if (type !== 'rl') return `This trainer runs type = "rl"; the config says "${type}".`
  if (batch_size % rollouts_per_example !== 0) {
    return `batch_size ${batch_size} is not divisible by rollouts_per_example ${rollouts_per_example}.`
  }
  if (sampling.temperature === 0) {
    return 'sampling.temperature is 0: all answers to a question would be the same. Train at about 1; 0 is for eval.temperature.'
  }
  if (kl_penalty.enabled && !lora.enabled) {
    return 'kl_penalty needs lora.enabled: the reference is the policy without its adapters.'
  }
  if (optimizer.type === 'muon') return 'optimizer.type is "muon", which no policy has here yet; use "adamw" or "sgd".'
  if (max_async_level > 0 && max_off_policy_steps === 0) {
    return 'max_off_policy_steps is 0, and with max_async_level above 0 every answer is one update old: all would be dropped. Set it to 1 or more.'
  }
  if (loss.teacher_tau > 0) return 'loss.teacher_tau needs a teacher model, which no run has here yet; set it to 0.'
  return null
}

export function runNotes({ max_async_level, sampling, browser, eval: evaluation }: RunConfig): string[] {
  const notes: string[] = []
  if (max_async_level > 1) {
    notes.push(
      `max_async_level is ${max_async_level}; here sampling runs one batch ahead of learning at most, as with 1.`,
    )
  }
  if (max_async_level > 0 && browser.in_flight_updates) {
    notes.push(
      'browser.in_flight_updates is on: answers change over to new adapters in mid-sentence, and when depends on the ' +
        'clock. The same seed gives other tokens each time.',
    )
  }
  const { top_p, top_k, min_p, repetition_penalty } = sampling
  if (top_p < 1 || top_k > 0 || min_p > 0 || repetition_penalty !== 1) {
    notes.push(
      'Sampling leaves out or reweighs tokens (top_p, top_k, min_p or repetition_penalty), while log-probabilities are ' +
        'those of the whole distribution: the ratio π/μ is then approximate.',
    )
  }
  if (evaluation.interval === null) notes.push('No held-out evaluation: eval.interval is not set.')
  return notes
}
