// Named moments between two writes. A test may have the process killed at one of them, as by kill -9, to see what a
// restart makes of what is left.

const [name, count] = (process.env.ROLLOUT_LAB_CRASH_AT ?? '').split('#')
let left = Number(count ?? 1)

/** Kills this process where `ROLLOUT_LAB_CRASH_AT` names this point, `point#3` on the third time. */
export function crashPoint(point: string): void {
  if (point !== name || --left > 0) return
  process.kill(process.pid, 'SIGKILL')
  // The signal is on its way: nothing more may happen.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10_000)
}
