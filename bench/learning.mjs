// Learning curves, taken the way a user takes them: the built page in a real Chromium, a recipe, Play, and then the events
// that the page kept. One run per seed.
//
//   npm run build && node bench/learning.mjs [--recipe "Reverse text on lab-tiny"] [--seeds 1,2,3] [--chrome PATH]
//       [--flags=--use-webgpu-adapter=swiftshader] [--out curves.json] [--shots FOLDER] [--minutes 8] [--steps 200]
//       [--set "Frozen weights as=int8"] [--set "Async level=1"]     any setting by its label

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { chromium } from 'playwright-core'
import { serveFolder } from './serveFolder.mjs'

/** @typedef {import('../workers/protocol.ts').RunEvent} RunEvent */

const { values } = parseArgs({
  options: {
    recipe: { type: 'string', default: 'Reverse text on lab-tiny' },
    seeds: { type: 'string', default: '1,2,3' },
    chrome: { type: 'string', default: '/usr/bin/chromium' },
    flags: { type: 'string', default: '' },
    out: { type: 'string', default: 'curves.json' },
    shots: { type: 'string', default: '' },
    minutes: { type: 'string', default: '8' },
    steps: { type: 'string', default: '' },
    set: { type: 'string', multiple: true, default: [] },
  },
})

const root = join(import.meta.dirname, '..')
const server = await serveFolder(join(root, 'dist/web'))
const browser = await chromium.launch({
  executablePath: values.chrome,
  args: ['--no-sandbox', '--enable-unsafe-webgpu', ...values.flags.split(' ').filter(Boolean)],
})
const curves = []
for (const seed of values.seeds.split(',').map(Number)) curves.push(await take(seed))
await browser.close()
server.close()
writeFileSync(values.out, `${JSON.stringify(curves)}\n`)

/**
 * Plays one run to its end and gives its evaluations and steps.
 * @param {number} seed
 */
async function take(seed) {
  // A profile of its own: no earlier run to resume.
  const context = await browser.newContext({ viewport: { width: 1480, height: 860 } })
  const page = await context.newPage()
  page.on('pageerror', (error) => console.error(error.message))
  await page.goto(server.url)
  await page.locator('header select').first().selectOption({ label: values.recipe })
  for (const [label, value] of [
    ['Seed', String(seed)],
    ['Steps', values.steps],
  ]) {
    if (!value) continue
    const field = page.getByLabel(label, { exact: true }).first()
    await field.fill(value)
    await field.press('Enter')
  }
  for (const setting of values.set) {
    const [label, value] = setting.split('=')
    await page.getByPlaceholder('Find a setting').fill(label)
    const field = page.getByLabel(label, { exact: true })
    const kind = await field.evaluate((element) => (element instanceof HTMLInputElement ? element.type : 'select'))
    if (kind === 'select') await field.selectOption(value)
    else if (kind === 'checkbox') await field.setChecked(value === 'true')
    else {
      await field.fill(value)
      await field.press('Enter')
    }
  }
  const started = performance.now()
  await page.locator('header').getByRole('button', { name: 'Play' }).click()
  // Without a graphics card the page asks first.
  const slower = page.getByRole('button', { name: /on the processor/ })
  if (await slower.isVisible()) await slower.click()

  const deadline = started + Number(values.minutes) * 60_000
  const ended = new Set(['finished', 'failed', 'stopped'])
  /** @type {RunEvent[]} */
  let events = []
  for (let shot = 0; performance.now() < deadline; ) {
    await page.waitForTimeout(1000)
    events = await page.evaluate(readEvents)
    const steps = of(events, 'step').length
    if (values.shots && steps >= [1, 8, 20, Number.POSITIVE_INFINITY][shot]) {
      await page.screenshot({ path: join(values.shots, `seed-${seed}-${shot++}.png`) })
    }
    if (of(events, 'state').some(({ state }) => ended.has(state))) break
  }
  const wallSeconds = (performance.now() - started) / 1000
  if (values.shots) await page.screenshot({ path: join(values.shots, `seed-${seed}-end.png`) })
  await context.close()

  const { device, model } = of(events, 'started')[0]?.description ?? {}
  const evaluations = of(events, 'evaluation').map(({ step, metrics, seconds }) => ({ step, seconds, metrics }))
  const steps = of(events, 'step').map(({ step, metrics, seconds }) => ({ step, seconds, metrics }))
  const heldOut = evaluations.map(({ step, metrics }) => `${step}: ${metrics['eval/reward/mean'].toFixed(3)}`)
  const training = steps.filter(({ step }) => step % 4 === 1).map(({ metrics }) => metrics['reward/mean'].toFixed(2))
  const peak = Math.max(...steps.map(({ metrics }) => metrics['perf/peak_memory'] ?? 0))
  console.log(
    `seed ${seed}: ${wallSeconds.toFixed(1)} s on ${device?.adapter} (${device?.backend}), ${steps.length} steps`,
  )
  console.log(`  ${of(events, 'state').at(-1)?.state}; peak ${peak.toFixed(2)} GiB`)
  console.log(`  ${pace(of(events, 'step'))}`)
  console.log(`  held out: ${heldOut.join('  ')}`)
  console.log(`  training: ${training.join(' ')}`)
  const date = new Date().toISOString().slice(0, 10)
  return { seed, date, device, model, wallSeconds, evaluations, steps, notes: of(events, 'note') }
}

/**
 * What a step takes, and how much of it the GPU was busy: within steps, and from the end of the fifth to the last, with all
 * that stands between steps.
 * @param {Extract<RunEvent, { kind: 'step' }>[]} steps
 */
function pace(steps) {
  const late = steps.slice(5)
  const share = (/** @type {number} */ busy, /** @type {number} */ wall) => `${((100 * busy) / wall).toFixed(0)} %`
  const total = (/** @type {(step: typeof late[number]) => number} */ of) =>
    late.reduce((sum, step) => sum + of(step), 0)
  const busy = total(({ metrics, seconds }) => (metrics['perf/gpu_busy'] ?? Number.NaN) * seconds.total)
  const within = total(({ seconds }) => seconds.total)
  const wall = ((steps.at(-1)?.time ?? 0) - (steps[4]?.time ?? 0)) / 1000
  return (
    `a step ${((1000 * within) / late.length).toFixed(0)} ms, ${((1000 * wall) / late.length).toFixed(0)} from end to end; ` +
    `GPU busy ${share(busy, within)} within steps, ${share(busy, wall)} end to end`
  )
}

/**
 * @template {RunEvent['kind']} Kind
 * @param {RunEvent[]} events
 * @param {Kind} kind
 */
function of(events, kind) {
  return /** @type {Extract<RunEvent, { kind: Kind }>[]} */ (events.filter((event) => event.kind === kind))
}

/**
 * Runs in the page: every event that it has kept.
 * @returns {Promise<RunEvent[]>}
 */
async function readEvents() {
  const known = (await indexedDB.databases()).some(({ name }) => name === 'rollout-lab')
  if (!known) return []
  /** @type {<T>(request: IDBRequest<T>) => Promise<T>} */
  const answer = (request) =>
    new Promise((resolve, reject) => {
      request.onsuccess = () => resolve(request.result)
      request.onerror = () => reject(request.error)
    })
  const database = await answer(indexedDB.open('rollout-lab'))
  const events = database.objectStoreNames.contains('events')
    ? await answer(database.transaction('events').objectStore('events').getAll())
    : []
  database.close()
  return events
}
