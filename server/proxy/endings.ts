// Who is to be told when a right ends. Thousands of answers may hang on one signal, which is made for a few listeners: it
// gets one, for as long as anybody waits.

const waiting = new WeakMap<AbortSignal, Set<() => void>>()

/** Calls `then` when the signal aborts, at once when it has. Returns how to stop waiting. */
export function whenEnded(signal: AbortSignal, then: () => void): () => void {
  if (signal.aborted) {
    then()
    return () => {}
  }
  const all = waiting.get(signal) ?? new Set()
  waiting.set(signal, all)
  if (all.size === 0) signal.addEventListener('abort', onAbort)
  all.add(then)
  return () => {
    all.delete(then)
    if (all.size === 0) signal.removeEventListener('abort', onAbort)
  }
}

function onAbort(this: AbortSignal) {
  for (const then of [...(waiting.get(this) ?? [])]) then()
}
