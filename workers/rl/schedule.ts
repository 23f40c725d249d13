// The learning rate of each step: a rise, a shape, and a floor.

export interface ScheduleConfig {
  learning_rate: number
  max_steps: number
  scheduler: SchedulerConfig
}

export interface SchedulerConfig {
  type: 'constant' | 'linear' | 'cosine'
  warmup_steps: number
  /** Length of the fall at the end of a linear schedule. */
  decay_steps: number
  /** Floor of the fall, and where the rise begins. */
  min_lr: number
}

/**
 * The rate of update `step`, counted from 0.
 *
 * rise      min + (lr − min) · (step+1)/warmup   while step < warmup
 * constant  lr
 * linear    lr, and over the last `decay_steps` steps min + (lr − min) · remaining/decay
 * cosine    min + (lr − min) · (1 + cos(π·done))/2, `done` running from 0 after the rise to 1 past the last step
 *
 * The first update has a rate above zero, so that it changes something; PyTorch's LinearLR, which prime-rl uses, starts
 * one step lower.
 */
export function learningRate(step: number, { learning_rate: peak, max_steps, scheduler }: ScheduleConfig): number {
  const { type, warmup_steps, decay_steps, min_lr: floor } = scheduler
  const between = (share: number) => floor + (peak - floor) * share
  if (step < warmup_steps) return between((step + 1) / warmup_steps)
  if (type === 'linear') return between(Math.min(1, Math.max(0, (max_steps - step) / Math.max(1, decay_steps))))
  if (type === 'cosine') {
    const done = Math.min(1, (step - warmup_steps) / Math.max(1, max_steps - warmup_steps))
    return between((1 + Math.cos(Math.PI * done)) / 2)
  }
  return peak
}
