// Asking again when no answer came: with growing pauses, and as long as the hub asks to wait.

import { Unreachable } from './client.ts'

export interface Patience {
  signal?: AbortSignal
  /** Tries in a row that bring nothing. */
  tries?: number
  /** Before the try that follows the nth one in vain, milliseconds. */
  pauseMs?: (n: number) => number
}

/** The longest that a hub may ask to wait, seconds. */
const LONGEST_WAIT = 30

/** Throws what is not an `Unreachable` at once, and `sentence(why)` when nobody answered in time. */
export async function patiently<T>(
  ask: () => Promise<T>,
  patience: Patience,
  sentence: (why: string) => string,
): Promise<T> {
  for (let n = 1; ; n++) {
    try {
      return await ask()
    } catch (error) {
      await again(error, n, patience, sentence)
    }
  }
}

/** After the nth vain try in a row: waits, or throws when it was the last. */
export async function again(
  error: unknown,
  n: number,
  { signal, tries = 6, pauseMs = (n) => 500 * 2 ** (n - 1) }: Patience,
  sentence: (why: string) => string,
): Promise<void> {
  signal?.throwIfAborted()
  if (!(error instanceof Unreachable)) throw error
  if (n >= tries) throw new Error(sentence(error.message), { cause: error })
  await pause(Math.max(pauseMs(n), Math.min(LONGEST_WAIT, error.retryAfter ?? 0) * 1000), signal)
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, ms)
    signal?.addEventListener('abort', stop, { once: true })
  })
}
