// GPU time by kernel of a run, while somebody wants to know it: turned on and off at step boundaries, told after every
// step and every evaluation.

import type { OpenRun } from './openRun.ts'
import { seconds } from './saving.ts'

export class KernelWatch {
  #on = false
  /** Steps that were done when it was turned on. */
  #since = 0
  /** Of the steps and evaluations since then. */
  #seconds = 0

  /** @throws a sentence where nothing can be timed */
  async turn(open: OpenRun, on: boolean): Promise<void> {
    const { kernelTimer } = open.run.policy
    if (!kernelTimer) {
      throw new Error(
        'Timed no kernel: that takes the compiled policy, on a device with the WebGPU feature timestamp-query.',
      )
    }
    if (on === this.#on) return
    this.#on = on
    if (on) {
      this.#since = open.progress.step
      this.#seconds = 0
    }
    kernelTimer.turn(on)
    await this.#tell(open)
  }

  /** Does the work, and tells the times since the watch was turned on. */
  async over<T>(open: OpenRun, work: () => Promise<T>): Promise<T> {
    const began = seconds()
    const result = await work()
    if (this.#on) await this.#tell(open, began)
    return result
  }

  async #tell({ run, log, progress }: OpenRun, began?: number): Promise<void> {
    const { kernels, untimed } = await run.policy.kernelTimer!.times()
    // With the wait for the last times: their kernels ran within it.
    if (began !== undefined) this.#seconds += seconds() - began
    const [since, step] = [this.#since, progress.step]
    log.emit({ kind: 'kernels', on: this.#on, since, step, seconds: this.#seconds, kernels, untimed })
  }
}
