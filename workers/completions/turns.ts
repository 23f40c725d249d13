// One thing at a time on the device, in the order of asking: passes of several models share it, chunk by chunk.

export class Turns {
  #last: Promise<unknown> = Promise.resolve()

  /** Runs when everybody before has finished, whether they succeeded or not. */
  take<T>(action: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(action, action)
    this.#last = turn.catch(() => {})
    return turn
  }
}
