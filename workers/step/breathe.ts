// Lets messages in: computation whose promises settle at once (a processor backend) would otherwise keep a thread from
// hearing «pause» for a whole step.

const OFTEN_ENOUGH_MS = 10
let last = 0

/** Gives way to waiting messages, at most every ten milliseconds. */
export async function breathe(): Promise<void> {
  const now = performance.now()
  if (now - last < OFTEN_ENOUGH_MS) return
  last = now
  await new Promise<void>((resolve) => {
    const { port1, port2 } = new MessageChannel()
    port1.onmessage = () => {
      port1.close()
      resolve()
    }
    port2.postMessage(null)
  })
}
