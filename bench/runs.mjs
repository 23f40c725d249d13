// What it costs to follow many runs at once: `node bench/runs.mjs [runs] [followers a run] [seconds]`. The server in one
// process, all followers in this one, on the same machine.

import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'vite'

const root = join(import.meta.dirname, '..')
const [runs, followers, seconds] = [100, 1, 20].map((usual, i) => Number(process.argv[2 + i] ?? usual))
const STALLED = 20
const out = mkdtempSync(join(root, 'dist/.bench-'))
const data = mkdtempSync(join(tmpdir(), 'rollout-lab-bench-'))
await build({
  configFile: false,
  root,
  logLevel: 'error',
  build: {
    ssr: join(root, 'bench/runs/server.ts'),
    outDir: out,
    target: 'node20',
    rolldownOptions: { output: { entryFileNames: 'server.mjs' } },
  },
})
const EVERY_MS = 100
const script = { events: (seconds * 1000) / EVERY_MS, batch: 1, everyMs: EVERY_MS }
const server = spawn(
  process.execPath,
  [
    ...(process.env.PROF ? ['--cpu-prof', '--cpu-prof-dir', process.env.PROF] : []),
    join(out, 'server.mjs'),
    root,
    data,
    JSON.stringify(script),
  ],
  {
    stdio: ['ignore', 'pipe', 'inherit'],
  },
)
const url = await new Promise((resolve) => server.stdout.once('data', (bytes) => resolve(bytes.toString().trim())))
try {
  const config = JSON.parse(readFileSync(join(root, 'bench/runs/config.json'), 'utf8'))
  const before = memory()
  const ids = []
  for (let i = 0; i < runs; i++) ids.push((await post('runs', { config, target: 'scripted' })).id)
  const began = performance.now()
  /** @type {number[]} */
  const delays = []
  const following = ids.flatMap((id) => Array.from({ length: followers }, () => follow(id, delays)))
  for (const id of ids.slice(0, STALLED)) stall(id)
  /** @type {number[]} */
  const asked = []
  let peak = 0
  let over = false
  const asking = (async () => {
    while (!over) {
      const at = performance.now()
      await (await fetch(`${url}api/runs?limit=50`)).json()
      asked.push(performance.now() - at)
      peak = Math.max(peak, memory())
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  })()
  const counts = await Promise.all(following)
  over = true
  await asking
  const took = (performance.now() - began) / 1000
  const events = counts.reduce((sum, count) => sum + count, 0)
  const whole = counts.every((count) => count >= script.events)
  process.stdout.write(
    [
      `${runs} runs, ${followers} followers each, ${STALLED} more that do not read; ${script.events} events a run`,
      `all followers whole: ${whole}; ${events} events in ${took.toFixed(1)} s, ${Math.round(events / took)} a second`,
      `an event's way from engine to follower: p50 ${at(delays, 0.5)} ms, p99 ${at(delays, 0.99)} ms`,
      `another request meanwhile: p50 ${at(asked, 0.5)} ms, p99 ${at(asked, 0.99)} ms`,
      `memory of the server: ${before} MB before, ${peak} MB at most`,
      '',
    ].join('\n'),
  )
} finally {
  server.kill('SIGINT')
  rmSync(out, { recursive: true, force: true })
  rmSync(data, { recursive: true, force: true })
}
process.exit(0)

/** @param {string} path @param {unknown} body */
async function post(path, body) {
  const answer = await fetch(`${url}api/${path}`, { method: 'POST', body: JSON.stringify(body) })
  if (!answer.ok) throw new Error(await answer.text())
  return answer.json()
}

/** @param {string} id @param {number[]} delays @returns {Promise<number>} */
function follow(id, delays) {
  return new Promise((resolve, reject) => {
    let [count, text] = [0, '']
    const asked = request(`${url}api/runs/${id}/events`, (answer) => {
      answer.setEncoding('utf8')
      answer.on('data', (part) => {
        text += part
        const now = Date.now()
        for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
          const block = text.slice(0, end)
          text = text.slice(end + 2)
          if (!block.startsWith('event: run')) continue
          count++
          const told = /"time":(\d+)/.exec(block)
          if (told && count % 10 === 0) delays.push(now - Number(told[1]))
        }
      })
      answer.on('end', () => resolve(count))
    })
    asked.on('error', reject)
    asked.end()
  })
}

/** @param {string} id */
function stall(id) {
  const asked = request(`${url}api/runs/${id}/events`, (answer) => void answer.pause())
  asked.on('error', () => {})
  asked.end()
}

/** Of the server, in megabytes. */
function memory() {
  const status = readFileSync(`/proc/${server.pid}/status`, 'utf8')
  return Math.round(Number(/VmRSS:\s*(\d+)/.exec(status)?.[1]) / 1024)
}

/** @param {number[]} values @param {number} share */
function at(values, share) {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(share * (sorted.length - 1))]?.toFixed(1)
}
