/** Asks until it holds; throws saying what did not come to pass. An error while asking means "not yet". */
export async function until(holds: () => Promise<boolean>, what: string, milliseconds = 60_000): Promise<void> {
  const end = Date.now() + milliseconds
  let last: unknown
  while (Date.now() < end) {
    try {
      if (await holds()) return
      last = undefined
    } catch (error) {
      last = error
    }
    await new Promise((resolve) => setTimeout(resolve, 150))
  }
  throw new Error(
    `Waited ${milliseconds / 1000} s, and not: ${what}.${last instanceof Error ? ` ${last.message}` : ''}`,
  )
}
