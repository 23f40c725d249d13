// A run as the page drives it: opened by a link, started by Play, read back from what the browser has stored of it.

import type { Page } from 'playwright-core'
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

/** Presses Play once the page has taken the config from its link; a slow device is named there. */
export async function play(page: Page): Promise<void> {
  const taken = page.getByText('Nothing runs until you press Play')
  await taken.waitFor({ timeout: 20_000 }).catch(async () => {
    throw new Error(await lament(page, 'The page did not take the link'))
  })
  await playButton(page).click({ timeout: 20_000 })
}

/** Waits until the bar tells of so many steps done, or more. */
export async function untilStep(page: Page, step: number, timeout = 100_000): Promise<void> {
  const done = page.getByRole('progressbar', { name: 'Steps done' })
  const deadline = performance.now() + timeout
  while (Number(await done.getAttribute('aria-valuenow')) < step) {
    if (performance.now() > deadline) throw new Error(await lament(page, `Step ${step} was not done in ${timeout} ms`))
    await page.waitForTimeout(20)
  }
}

/** Waits until the newest run of this browser has ended in this state, and reads it. */
export async function ended(page: Page, state: RunSummary['state'] = 'finished', timeout = 100_000): Promise<Stored> {
  const deadline = performance.now() + timeout
  for (;;) {
    const newest = (await page.evaluate(readNewest, false))?.summary
    if (newest?.state === state) return (await page.evaluate(readNewest, true)) as Stored
    const isOver = newest && ['finished', 'failed', 'stopped'].includes(newest.state)
    if (isOver || performance.now() > deadline) {
      const now = newest ? `${newest.state} at step ${newest.step}${isOver ? '' : ` after ${timeout} ms`}` : 'not there'
      throw new Error(await lament(page, `Waited for a run to be ${state}: it is ${now}`))
    }
    await page.waitForTimeout(300)
  }
}

async function lament(page: Page, what: string): Promise<string> {
  const said = await page.getByRole('alert').allInnerTexts()
  return `${what}; the page says: ${said.join(' ') || 'nothing'}`
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
