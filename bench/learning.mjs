// Learning curves, taken the way a user takes them: the built page in a real Chromium, a recipe, Play, and then the events
// that the page kept. One run per seed.
//
//   npm run build && node bench/learning.mjs [--recipe "Reverse text on lab-tiny"] [--seeds 1,2,3] [--chrome PATH]
//                    [--flags=--use-webgpu-adapter=swiftshader] [--out curves.json] [--shots FOLDER]

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { chromium } from 'playwright-core'

const { values } = parseArgs({
  options: {
    recipe: { type: 'string', default: 'Reverse text on lab-tiny' },
    seeds: { type: 'string', default: '1,2,3' },
    chrome: { type: 'string', default: '/usr/bin/chromium' },
    flags: { type: 'string', default: '' },
    url: { type: 'string', default: '' },
    out: { type: 'string', default: 'curves.json' },
    shots: { type: 'string', default: '' },
    minutes: { type: 'string', default: '8' },
  },
})

const root = join(import.meta.dirname, '..')
const server = values.url ? null : await (await import('../dist/node/server/main.js')).serve({ webRoot: join(root, 'dist/web'), port: 0 })
const url = values.url || server.url
const browser = await chromium.launch({
  executablePath: values.chrome,
  args: ['--no-sandbox', '--enable-unsafe-webgpu', ...values.flags.split(' ').filter(Boolean)],
})
const results = []
for (const seed of values.seeds.split(',').map(Number)) results.push(await take(seed))
await browser.close()
await server?.close()
writeFileSync(values.out, `${JSON.stringify(results)}\n`)

/** Plays one run to its end and gives its evaluations, steps and memory. */
async function take(seed) {
  const page = await browser.newPage({ viewport: { width: 1480, height: 860 } })
  page.on('pageerror', (error) => console.error(error.message))
  await page.goto(url)
  await page.locator('header select').first().selectOption({ label: values.recipe })
  await page.getByLabel('Seed', { exact: true }).first().fill(String(seed))
  await page.getByLabel('Seed', { exact: true }).first().press('Enter')
  const started = performance.now()
  await page.locator('header').getByRole('button', { name: 'Play' }).click()
  // Without a graphics card the page asks first.
  const slower = page.getByRole('button', { name: /on the processor/ })
  if (await slower.isVisible()) await slower.click()
  const deadline = started + Number(values.minutes) * 60_000
  let shot = 0
  let events = []
  while (performance.now() < deadline) {
    await page.waitForTimeout(1000)
    events = await page.evaluate(readEvents)
    const steps = events.filter((event) => event.kind === 'step')
    if (values.shots && steps.length >= [1, 8, 20][shot]) await page.screenshot({ path: join(values.shots, `seed-${seed}-${shot++}.png`) })
    if (events.some((event) => event.kind === 'state' && ['finished', 'failed', 'stopped'].includes(event.state))) break
  }
  const wallSeconds = (performance.now() - started) / 1000
  if (values.shots) await page.screenshot({ path: join(values.shots, `seed-${seed}-end.png`) })
  await page.context().clearCookies()
  await page.evaluate(() => indexedDB.databases().then((all) => Promise.all(all.map(({ name }) => indexedDB.deleteDatabase(name)))).then(() => true)).catch(() => {})
  await page.close()
  const evaluations = events.filter((event) => event.kind === 'evaluation').map(({ step, metrics, seconds }) => ({ step, seconds, metrics }))
  const steps = events.filter((event) => event.kind === 'step').map(({ step, metrics, seconds }) => ({ step, seconds, metrics }))
  const memory = events.filter((event) => event.kind === 'memory').map(({ gpuBytes, gpuPeakBytes, tensors, buffers }) => ({ gpuBytes, gpuPeakBytes, tensors, buffers }))
  const description = events.find((event) => event.kind === 'started')?.description
  const notes = events.filter((event) => event.kind === 'note').map(({ sentence }) => sentence)
  const states = events.filter((event) => event.kind === 'state').map(({ state, reason }) => ({ state, reason }))
  console.log(`seed ${seed}: ${wallSeconds.toFixed(1)} s on ${description?.device.adapter} (${description?.device.backend}); ${steps.length} steps; ${states.at(-1)?.state}`)
  console.log(`  held out: ${evaluations.map(({ step, metrics }) => `${step}: ${metrics['eval/reward/mean'].toFixed(3)}`).join('  ')}`)
  console.log(`  training: ${steps.filter(({ step }) => step % 4 === 1).map(({ metrics }) => metrics['reward/mean'].toFixed(2)).join(' ')}`)
  console.log(`  peak ${(Math.max(0, ...memory.map(({ gpuPeakBytes }) => gpuPeakBytes)) / 1e6).toFixed(0)} MB; tensors ${memory.at(-1)?.tensors}, buffers ${memory.at(-1)?.buffers}`)
  return { seed, date: new Date().toISOString().slice(0, 10), device: description?.device, model: description?.model, wallSeconds, evaluations, steps, memory, notes, states }
}

/** Runs in the page: every event of the newest run. */
async function readEvents() {
  const names = (await indexedDB.databases()).map(({ name }) => name)
  const database = await new Promise((resolve, reject) => {
    const request = indexedDB.open(names.find((name) => name.includes('rollout')) ?? names[0])
    request.onsuccess = () => resolve(request.result)
    request.onerror = () => reject(request.error)
  })
  if (!database.objectStoreNames.contains('events')) return []
  const all = await new Promise((resolve, reject) => {
    const request = database.transaction('events').objectStore('events').getAll()
    request.onsuccess = () => resolve(request.result)
    request.onerror = () => reject(request.error)
  })
  database.close()
  const newest = all.at(-1) && all.reduce((last, event) => (event.time > last.time ? event : last)).run
  return all.filter((event) => event.run === newest)
}
