// How many retries there may be: a share of the requests, above a reserve for the quiet hours. When every node fails,
// retries stop, and an outage is not doubled by them.

export class RetryBudget {
  #left: number

  constructor(private config: { budget: number; reserve: number }) {
    this.#left = config.reserve
  }

  configure(config: { budget: number; reserve: number }) {
    this.config = config
    this.#left = Math.min(this.#left, config.reserve)
  }

  get left() {
    return this.#left
  }

  requested() {
    this.#left = Math.min(this.#left + this.config.budget, this.config.reserve)
  }

  /** Whether one more retry may be made; it is then paid for. */
  take(): boolean {
    if (this.#left < 1) return false
    this.#left--
    return true
  }
}
