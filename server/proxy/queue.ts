// Where requests wait for a place on a node: bounded in number and time, and fair, so that a key with many requests
// delays the others by one request at most. Knows keys and labels, nothing of nodes.

import { Refusal } from './refusal.ts'
import type { QueueView } from './views.ts'

export interface QueueConfig {
  capacity: number
  patience_seconds: number
}

export interface Applicant<Place> {
  key: string
  /** What it waits for. Two with one label and not `picky` are placed alike. */
  label: string
  picky: boolean
  /** Takes a place if there is one; throws a Refusal when waiting is no use. */
  place(): Place | null
}

interface Waiting<Place> {
  applicant: Applicant<Place>
  since: number
  timer: NodeJS.Timeout
  resolve(place: Place): void
  reject(error: unknown): void
}

export interface Wait<Place> {
  place: Promise<Place>
  /** The client has left. */
  leave(): void
}

export class FairQueue<Place> {
  /** In the order of their turns. */
  #lines = new Map<string, Waiting<Place>[]>()
  #size = 0

  constructor(private config: QueueConfig) {}

  configure(config: QueueConfig) {
    this.config = config
  }

  get size() {
    return this.#size
  }

  /** A place at once, when nobody waits and there is one. */
  now(applicant: Applicant<Place>): Place | null {
    return this.#size === 0 ? applicant.place() : null
  }

  /** Waits at the end of the key's line; `ahead` at its head, for a request that has already waited. */
  enter(applicant: Applicant<Place>, ahead = false): Wait<Place> {
    if (this.#size >= this.config.capacity) this.#makeRoom(applicant.key)
    let waiting!: Waiting<Place>
    const place = new Promise<Place>((resolve, reject) => {
      const timer = setTimeout(
        () => this.#remove(waiting) && reject(this.#impatient()),
        this.config.patience_seconds * 1000,
      )
      waiting = { applicant, since: Date.now(), timer, resolve, reject }
    })
    const line = this.#lines.get(applicant.key) ?? []
    if (ahead) line.unshift(waiting)
    else line.push(waiting)
    this.#lines.set(applicant.key, line)
    this.#size++
    this.pump()
    return { place, leave: () => void this.#remove(waiting) }
  }

  /** Gives out what places there are, one to each key in turn. To be called whenever a place may have become free. */
  pump() {
    const hopeless = new Set<string>()
    while (this.#size > 0 && this.#placeOne(hopeless));
  }

  view(): QueueView {
    const byModel = new Map<string, number>()
    let oldest = Number.POSITIVE_INFINITY
    for (const { applicant, since } of [...this.#lines.values()].flat()) {
      byModel.set(applicant.label, (byModel.get(applicant.label) ?? 0) + 1)
      oldest = Math.min(oldest, since)
    }
    return {
      waiting: this.#size,
      capacity: this.config.capacity,
      patienceSeconds: this.config.patience_seconds,
      oldestSeconds: this.#size ? (Date.now() - oldest) / 1000 : null,
      byModel: [...byModel].map(([model, waiting]) => ({ model, waiting })),
    }
  }

  /** Refuses all who wait. */
  close(refusal: Refusal) {
    for (const waiting of [...this.#lines.values()].flat()) if (this.#remove(waiting)) waiting.reject(refusal)
  }

  #placeOne(hopeless: Set<string>): boolean {
    for (const [key, line] of this.#lines) {
      for (const waiting of line) {
        const { applicant } = waiting
        if (!applicant.picky && hopeless.has(applicant.label)) continue
        try {
          const place = applicant.place()
          if (place === null) {
            if (!applicant.picky) hopeless.add(applicant.label)
            continue
          }
          this.#remove(waiting)
          waiting.resolve(place)
        } catch (error) {
          this.#remove(waiting)
          waiting.reject(error)
        }
        const rest = this.#lines.get(key)
        if (rest) {
          this.#lines.delete(key)
          this.#lines.set(key, rest)
        }
        return true
      }
    }
    return false
  }

  #remove(waiting: Waiting<Place>): boolean {
    const { key } = waiting.applicant
    const line = this.#lines.get(key)
    const at = line?.indexOf(waiting) ?? -1
    if (at < 0) return false
    clearTimeout(waiting.timer)
    line!.splice(at, 1)
    if (!line!.length) this.#lines.delete(key)
    this.#size--
    return true
  }

  /** The longest line gives way to a key with a shorter one; else the newcomer is refused. */
  #makeRoom(key: string) {
    const own = this.#lines.get(key)?.length ?? 0
    const longest = [...this.#lines.values()].reduce<Waiting<Place>[]>((a, b) => (b.length > a.length ? b : a), [])
    const last = longest.at(-1)
    if (!last || longest.length <= own + 1) throw this.#full()
    if (this.#remove(last)) last.reject(this.#full())
  }

  #full() {
    const sentence = `Every node is busy and ${this.config.capacity} requests wait already: try again in a moment.`
    return new Refusal(429, 'queue_full', sentence, { retryAfterSeconds: 5 })
  }

  #impatient() {
    const sentence = `No node had a place within ${this.config.patience_seconds} s: try again in a moment.`
    return new Refusal(429, 'queue_timeout', sentence, { retryAfterSeconds: 5 })
  }
}
