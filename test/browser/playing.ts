// A run as the page drives it: opened by a link, started by Play, read back from what the browser has stored of it.

import type { Page } from 'playwright-core'
import { expect } from 'vitest'
import type { RunEvent, RunEventBody } from '../../workers/protocol.ts'
import type { RunSummary } from '../../workers/storage/store.ts'

export interface Stored {
  summary: RunSummary
  /** Without their samples. */
  events: RunEvent[]
  /** Per step of training: of each rollout its task, its attempt, its tokens and their log μ. */
  tokens: Record<number, string[]>
}

/** The bar's button, which reads Play, Pause, Loading or Pausing. */
export const playButton = (page: Page) => page.locator('.drive .play')

/** Presses Play; a slow device is named in the link or accepted before. */
export async function play(page: Page): Promise<void> {
  await expect.poll(() => playButton(page).isEnabled()).toBe(true)
  await playButton(page).click()
}

/** Waits until the bar says so; fails early, with the page's own words, when the run has failed instead. */
export async function until(page: Page, step: string, timeout = 100_000): Promise<void> {
  const failed = page.getByRole('alert').filter({ hasText: /The run (stopped|did not start)/ })
  const reached = page.getByText(step, { exact: true })
  await reached.or(failed).first().waitFor({ timeout })
  if (await failed.count()) throw new Error(`Waited for ${step}, and the page says: ${await failed.innerText()}`)
}

/** Waits until the newest run of this browser has ended, and reads it. */
export async function ended(page: Page, state: RunSummary['state'] = 'finished', timeout = 100_000): Promise<Stored> {
  const newest = async () => (await page.evaluate(readNewest, false))?.summary
  await expect
    .poll(async () => (await newest())?.state, { timeout, interval: 500 })
    .toMatch(/^(finished|failed|stopped)$/)
  const stored = (await page.evaluate(readNewest, true)) as Stored
  expect([stored.summary.state, stored.summary.reason]).toEqual([state, state === 'failed' ? expect.any(String) : null])
  return stored
}

/** The newest run of this browser, whatever its state; null when there is none. */
export function newestRun(page: Page): Promise<Stored | null> {
  return page.evaluate(readNewest, true)
}

export function eventsOf<Kind extends RunEventBody['kind']>({ events }: Stored, kind: Kind) {
  return events.filter((event): event is Extract<RunEvent, { kind: Kind }> => event.kind === kind)
}

/** Sent to the page as text: it can use nothing of this file. */
async function readNewest(whole: boolean): Promise<Stored | null> {
  const settled = <T>(request: IDBRequest<T>) =>
    new Promise<T>((resolve, reject) => {
      request.onsuccess = () => resolve(request.result)
      request.onerror = () => reject(request.error)
    })
  // A database that is not there would be made by opening it.
  if (!(await indexedDB.databases()).some(({ name }) => name === 'rollout-lab')) return null
  const database = await settled(indexedDB.open('rollout-lab'))
  try {
    const all = <T>(store: string, range?: IDBKeyRange) =>
      settled(database.transaction(store).objectStore(store).getAll(range)) as Promise<T[]>
    const summaries = await all<RunSummary>('runs')
    const summary = summaries.sort((a, b) => b.created - a.created)[0]
    if (!summary) return null
    const tokens: Stored['tokens'] = {}
    if (!whole) return { summary, events: [], tokens }
    const ofRun = IDBKeyRange.bound([summary.run], [summary.run, []])
    for (const row of await all<{ step: number; split: string; gzip: Uint8Array }>('samples', ofRun)) {
      if (row.split !== 'train') continue
      const text = new Blob([row.gzip as BlobPart]).stream().pipeThrough(new DecompressionStream('gzip'))
      const event = (await new Response(text).json()) as Extract<RunEvent, { kind: 'samples' }>
      tokens[row.step] = event.groups.flatMap(({ task, rollouts }) =>
        rollouts.map(({ attempt, tokens }) => `${task}/${attempt} ${tokens?.text.join('|')} ${tokens?.logMu}`),
      )
    }
    return { summary, events: await all<RunEvent>('events', ofRun), tokens }
  } finally {
    database.close()
  }
}
