// When a run saves itself: after every step while that is cheap, and at least every ten seconds otherwise. The
// [checkpointing] table has no say in it; it governs only which saves are kept for good.

import type { RunConfig } from '../../configs/schema.ts'

const MOST_SECONDS_UNSAVED = 10
/** Share of the time that saving may take when it happens after every step. */
const CHEAP = 0.05

export class SaveClock {
  #lastAt: number
  #lastTook = 0

  /** `now` in seconds, by any clock that does not jump. */
  constructor(now: number) {
    this.#lastAt = now
  }

  isDue(now: number): boolean {
    const since = now - this.#lastAt
    return since >= MOST_SECONDS_UNSAVED || this.#lastTook < CHEAP * since
  }

  saved(now: number, took: number): void {
    this.#lastAt = now
    this.#lastTook = took
  }
}

/** Whether the save of this step stays as a checkpoint: every n steps where asked for, and the last one always. */
export function isCheckpoint({ checkpointing, max_steps }: RunConfig, step: number): boolean {
  const every = checkpointing.save_every_n_steps
  return step >= max_steps || (every !== null && step > 0 && step % every === 0)
}
