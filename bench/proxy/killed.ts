// One of three nodes dies under 200 in flight, and comes back: `node killed.js`. Nodes in this process, the proxy in
// another one, whose program is the first argument. Prints one JSON line.

import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { chunkOf, LAST_CHUNKS, ScriptedNode } from '../../test/proxy/scriptedNode.ts'
import { CHAT, post } from './load.ts'

const [program, fixture] = process.argv.slice(2)
const folder = mkdtempSync(join(tmpdir(), 'rollout-lab-bench-'))
const BASE = 'qwen3-tied'
let begun = 0
const nodes = await Promise.all(
  [0, 1, 2].map(() =>
    ScriptedNode.start({
      models: [BASE],
      // Half of the streams have begun after a second, and all end after two.
      behave: async ({ body }, response) => {
        const { user } = JSON.parse(body)
        const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
        await wait(user === 'early' ? 200 : 1500)
        if (response.destroyed) return
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(chunkOf('one'))
        begun++
        await wait(user === 'early' ? 1800 : 500)
        if (!response.destroyed) response.end(LAST_CHUNKS)
      },
    }),
  ),
)
const env = { ...process.env, ADAPTERS: folder, ADAPTER_FIXTURE: fixture }
const door = spawn(process.execPath, [program, ...nodes.map(({ url }) => url)], {
  env,
  stdio: ['ignore', 'pipe', 'inherit'],
})
const [line] = await new Promise<string[]>((resolve) => {
  createInterface({ input: door.stdout }).once('line', (first) => resolve([first]))
})
const url = `http://127.0.0.1:${line}`
const get = async (path: string) => (await fetch(url + path)).json()
const until = async (condition: () => Promise<boolean> | boolean) => {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 20))
}
type View = { name: string; state: string; adapters: { state: string }[] }
const states = async () => ((await get('/api/proxy/nodes')) as { nodes: View[] }).nodes
await until(async () => (await states()).every(({ state }) => state === 'up'))

const config = JSON.parse(readFileSync(join(fixture, 'adapter_config.json'), 'utf8'))
const headers = { 'content-type': 'application/json' }
const announced = await fetch(`${url}/api/proxy/adapters`, {
  method: 'POST',
  headers,
  body: JSON.stringify({ name: 'odd', config }),
})
const { upload } = (await announced.json()) as { upload: string }
await fetch(url + upload, { method: 'PUT', body: readFileSync(join(fixture, 'adapter_model.safetensors')) })

const asked = Array.from({ length: 200 }, (_, i) =>
  post(`${url}/v1/chat/completions`, { ...CHAT, model: 'odd', stream: true, user: i % 2 ? 'early' : 'late' }),
)
await until(() => begun === 100)
const onDead = nodes[0].asked.map(({ body }) => JSON.parse(body).user as string)
await nodes[0].die()
const died = performance.now()
await until(async () => (await states())[0].state === 'down')
const outMs = performance.now() - died
const results = await Promise.all(asked)
const cut = results.filter(({ text }) => !text.endsWith('data: [DONE]\n\n'))
const saidSo = cut.filter(({ text }) => text.includes('"code":"stream_cut"'))
// Some seconds of being dead, then back.
await new Promise((resolve) => setTimeout(resolve, 3000))
await nodes[0].revive()
const revived = performance.now()
const before = nodes[0].asked.length
let adapterBack = Number.NaN
let answering = true
const traffic = (async () => {
  while (answering) {
    await Promise.all(
      [1, 2, 3].map(() => post(`${url}/v1/chat/completions`, { ...CHAT, model: 'odd', stream: true, user: 'early' })),
    )
  }
})()
await until(async () => {
  if (Number.isNaN(adapterBack) && nodes[0].adapters.size > 0) adapterBack = performance.now() - revived
  return nodes[0].asked.length > before && (await states())[0].state === 'up'
})
const backMs = performance.now() - revived
answering = false
await traffic
console.log(
  JSON.stringify({
    inFlight: results.length,
    onTheDead: onDead.length,
    notStartedFailures: results.filter(({ status }) => status !== 200).length,
    begunOnTheDead: onDead.filter((user) => user === 'early').length,
    cut: cut.length,
    cutThatSaySo: saidSo.length,
    outOfRotationMs: Math.round(outMs),
    adapterBackS: Number((adapterBack / 1000).toFixed(1)),
    answeringAgainS: Number((backMs / 1000).toFixed(1)),
  }),
)
door.kill('SIGKILL')
rmSync(folder, { recursive: true, force: true })
process.exit(0)
