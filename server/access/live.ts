// Ends answers that are still open when their right has ended: a signal per key and per signed-in page. What ends here is
// told at once; what another process ends in the database is found by looking, as often as `EVERY_MS`.

import { getEventListeners } from 'node:events'

const EVERY_MS = 2_000

export class Live {
  #controllers = new Map<string, AbortController>()
  #timer: NodeJS.Timeout

  /** `isGood` says of an id whether its right still holds. */
  constructor(isGood: (id: string) => Promise<boolean>, failed: (error: unknown) => void) {
    this.#timer = setInterval(async () => {
      try {
        for (const [id, { signal }] of [...this.#controllers]) {
          if (getEventListeners(signal, 'abort').length > 0 && !(await isGood(id))) this.end(id)
        }
      } catch (error) {
        failed(error)
      }
    }, EVERY_MS)
    this.#timer.unref()
  }

  signal(id: string): AbortSignal {
    const controller = this.#controllers.get(id) ?? new AbortController()
    this.#controllers.set(id, controller)
    return controller.signal
  }

  end(id: string) {
    this.#controllers
      .get(id)
      ?.abort(new Error('The key was revoked or has expired, the page has signed out, or the server is ending.'))
    this.#controllers.delete(id)
  }

  /** Ends all. */
  close() {
    clearInterval(this.#timer)
    for (const id of [...this.#controllers.keys()]) this.end(id)
  }
}
