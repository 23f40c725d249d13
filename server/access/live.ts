// Ends answers that are still open when their right has ended: a signal per key and per signed-in page. What ends here is
// told at once; what another process ends in the database is found by looking, as often as `EVERY_MS`.

import { getEventListeners } from 'node:events'

const EVERY_MS = 2_000
const FORGOTTEN_AFTER_MS = 3_600_000
const ENDED = 'The key was revoked or has expired, the page has signed out, or the server is ending.'

interface Right {
  controller: AbortController
  askedAt: number
}

export class Live {
  #rights = new Map<string, Right>()
  #timer: NodeJS.Timeout

  /** `isGood` says of an id whether its right still holds. */
  constructor(isGood: (id: string) => Promise<boolean>, failed: (error: unknown) => void) {
    this.#timer = setInterval(async () => {
      try {
        for (const [id, { controller, askedAt }] of [...this.#rights]) {
          if (getEventListeners(controller.signal, 'abort').length > 0) {
            if (!(await isGood(id))) this.end(id)
          } else if (Date.now() - askedAt > FORGOTTEN_AFTER_MS) this.#rights.delete(id)
        }
      } catch (error) {
        failed(error)
      }
    }, EVERY_MS)
    this.#timer.unref()
  }

  signal(id: string): AbortSignal {
    const right = this.#rights.get(id) ?? { controller: new AbortController(), askedAt: 0 }
    right.askedAt = Date.now()
    this.#rights.set(id, right)
    return right.controller.signal
  }

  end(id: string) {
    this.#rights.get(id)?.controller.abort(new Error(ENDED))
    this.#rights.delete(id)
  }

  /** Ends all whose id has such a last word. */
  endAllOf(word: string) {
    for (const id of [...this.#rights.keys()]) if (id.endsWith(` ${word}`)) this.end(id)
  }

  /** Ends all. */
  close() {
    clearInterval(this.#timer)
    for (const id of [...this.#rights.keys()]) this.end(id)
  }
}
