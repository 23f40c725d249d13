// Keeps requests away from a node that fails them. Knows outcomes and the time, nothing of HTTP.
//
// closed → open after some failures in a row, or a share of many; open → half-open when its time is over or its health is
// good again; half-open lets exactly one request through, whose outcome closes or opens it, longer each time.

export interface BreakerConfig {
  consecutive: number
  share: number
  least: number
  window_seconds: number
  open_seconds: number
  longest_open_seconds: number
}

/** Leave to send one request. Its outcome counts only in the state in which it was given. */
export interface Leave {
  readonly generation: number
  readonly probe: boolean
}

export class Breaker {
  state: 'closed' | 'open' | 'half-open' = 'closed'
  reason: string | null = null
  /** Times in ms, as `now` gives them. */
  since: number
  until: number | null = null
  #generation = 0
  #consecutive = 0
  #outcomes: { at: number; good: boolean }[] = []
  #openings = 0
  #probing = false

  constructor(
    private config: BreakerConfig,
    private readonly now: () => number = Date.now,
  ) {
    this.since = now()
  }

  configure(config: BreakerConfig) {
    this.config = config
  }

  get probing() {
    return this.#probing
  }

  /** Whether a request may go: 'probe' to one only. */
  admits(): 'yes' | 'probe' | 'no' {
    if (this.state === 'closed') return 'yes'
    if (this.state === 'open' && this.now() >= this.until!) this.halfOpen()
    return this.state === 'half-open' && !this.#probing ? 'probe' : 'no'
  }

  /** Takes the leave that `admits` offers; `early` sends the probe of an open breaker before its time. */
  begin(early = false): Leave {
    if (this.state === 'open' && early) this.halfOpen()
    const probe = this.state === 'half-open'
    if (probe) this.#probing = true
    return { generation: this.#generation, probe }
  }

  succeeded({ generation }: Leave) {
    if (generation !== this.#generation) return
    if (this.state === 'half-open') return this.#close()
    this.#consecutive = 0
    this.#count(true)
  }

  failed({ generation }: Leave, reason: string) {
    if (generation !== this.#generation) return
    if (this.state === 'half-open') return this.open(`The request that tried it failed: ${reason}`)
    this.#consecutive++
    this.#count(false)
    const bad = this.#outcomes.filter(({ good }) => !good).length
    const all = this.#outcomes.length
    if (this.#consecutive >= this.config.consecutive)
      this.open(`${this.#consecutive} answers in a row failed: ${reason}`)
    else if (all >= this.config.least && bad > all * this.config.share)
      this.open(`${bad} of ${all} answers in ${this.config.window_seconds} s failed: ${reason}`)
  }

  /** The request ended without saying anything about the node: its client left. */
  abandoned({ generation, probe }: Leave) {
    if (probe && generation === this.#generation) this.#probing = false
  }

  open(reason: string) {
    const { open_seconds, longest_open_seconds } = this.config
    const seconds = Math.min(open_seconds * 2 ** this.#openings, longest_open_seconds)
    this.#openings++
    this.#enter('open', reason, this.now() + seconds * 1000)
  }

  /** At once, whatever time is left. Does nothing unless open. */
  halfOpen() {
    if (this.state === 'open') this.#enter('half-open', this.reason, null)
  }

  #close() {
    this.#openings = 0
    this.#enter('closed', null, null)
  }

  #enter(state: Breaker['state'], reason: string | null, until: number | null) {
    this.state = state
    this.reason = reason
    this.since = this.now()
    this.until = until
    this.#generation++
    this.#consecutive = 0
    this.#outcomes = []
    this.#probing = false
  }

  #count(good: boolean) {
    const now = this.now()
    const start = now - this.config.window_seconds * 1000
    this.#outcomes.push({ at: now, good })
    while (this.#outcomes[0].at < start || this.#outcomes.length > MOST_REMEMBERED) this.#outcomes.shift()
  }
}

const MOST_REMEMBERED = 1000
