// Full-size runs on the page: their place in the queue, each time that the cluster began them, and a cost that grows. The
// cluster's own engine and the stand-in for prime-rl; the batch system is one of processes.

import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { ROOT } from '../../build/paths.ts'
import { FullSizeEngine } from '../../server/engines/primeRl/engine.ts'
import { fullSizeConfig } from '../cluster/support/config.ts'
import { makeProject } from '../cluster/support/project.ts'
import { ProcessScheduler } from '../server/runs/processScheduler.ts'
import { TestServer } from '../server/runs/server.ts'
import { openPage } from './harness.ts'

const scheduler = new ProcessScheduler(true)
let folder: string
let server: TestServer
let faults: Awaited<ReturnType<typeof makeProject>>['faults']
let http: ReturnType<typeof createServer>
let address: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollout-lab-cluster-'))
  const made = await makeProject(folder)
  faults = made.faults
  const { project } = made
  const hub = join(folder, 'hf/hub/models--Qwen--Qwen3-0.6B/snapshots/abc')
  await cp(join(ROOT, 'models/lab-nano'), hub, { recursive: true })
  const environment = { HF_HOME: join(folder, 'hf') }
  const options = {
    folder: join(folder, 'server'),
    runsRoot: join(folder, 'runs'),
    project,
    models: 'models',
    environment,
  }
  server = await TestServer.open(null, {
    local: null,
    engines: async () => [new FullSizeEngine(scheduler, { ...options, pricePerGpuHour: 3600 })],
  })
  // The page as the development server has it, and the API beside it.
  http = createServer(async (request, response) => {
    const url = request.url ?? '/'
    const answer = url.startsWith('/api/')
      ? await server.fetch(url.slice(4), { method: request.method, body: await bodyOf(request) })
      : await fetch(new URL(url, inject('devServer')))
    for (const [name, value] of answer.headers) {
      if (!/^(content-encoding|content-length|connection|transfer-encoding)$/.test(name))
        response.setHeader(name, value)
    }
    if (!url.startsWith('/api/')) response.setHeader('Server-Timing', 'rollout-lab')
    response.statusCode = answer.status
    if (!answer.body) return response.end()
    const body = Readable.fromWeb(answer.body as ReadableStream)
    body.on('error', () => response.end())
    response.on('close', () => body.destroy())
    body.pipe(response)
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  address = `http://127.0.0.1:${(http.address() as AddressInfo).port}/`
})

afterAll(async () => {
  http.closeAllConnections()
  http.close()
  await scheduler.close()
  await server.remove()
  await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
})

async function bodyOf(request: IncomingMessage): Promise<Uint8Array<ArrayBuffer> | undefined> {
  if (request.method === 'GET' || request.method === 'HEAD') return undefined
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return new Uint8Array(Buffer.concat(chunks))
}

/** Pictures for whoever looks at the page, where the variable SHOTS names a folder. */
async function picture(page: Page, name: string): Promise<void> {
  const shots = process.env.SHOTS
  if (!shots) return
  await mkdir(shots, { recursive: true })
  const size = page.viewportSize()!
  for (const [width, height] of [
    [1440, 900],
    [900, 700],
    [390, 844],
  ]) {
    await page.setViewportSize({ width, height })
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      // Colours fade into each other.
      await page.waitForTimeout(300)
      await page.screenshot({ path: join(shots, `${name}-${width}-${colorScheme}.png`) })
    }
  }
  await page.emulateMedia({ colorScheme: 'light' })
  await page.setViewportSize(size)
}

it('shows a run that waits, that the cluster begins anew, and what it costs so far', async () => {
  await faults({ pace: 1500 })
  const { id } = await server.submit(fullSizeConfig(), { target: 'slurm' })
  const { page, errors } = await openPage(address)
  await page.getByRole('button', { name: 'Runs', exact: true }).click()
  await page.getByRole('tab', { name: 'On this server' }).click()
  await page.getByRole('button', { name: 'time line' }).click()
  const line = page.getByRole('region', { name: 'Time line' })
  await line
    .getByText('2 jobs before it in the queue. It waits for nodes: other jobs have a higher priority.')
    .waitFor()
  await line.getByText('0.000 GPU-hours so far').waitFor()

  scheduler.begin('1')
  await line.getByText(/computed [\d.]+ s on n0$/).waitFor()
  // Two GPUs at 3600 an hour: two more a second.
  const cost = async () => Number(/cost ([\d.]+)/.exec(await line.innerText())?.[1])
  await expect.poll(cost).toBeGreaterThan(2)
  const before = await cost()
  await expect.poll(cost).toBeGreaterThan(before + 1)

  await server.until(id, ({ step }) => step >= 1)
  scheduler.requeue('1')
  await line.getByText('jobs before it in the queue').waitFor()
  const paused = await cost()
  await faults({ pace: 600 })
  scheduler.begin('1')
  await line
    .getByText(/computed [\d. a-z]+ on n0 · (waited [\d.]+ s · )?begun anew by the cluster, computed [\d.]+ s on n1/)
    .waitFor()
  await expect.poll(cost).toBeGreaterThan(paused)
  await picture(page, 'runs')

  // The run itself, followed: the same line beside what it computes on.
  await page.getByRole('button', { name: 'Open' }).click()
  await page.getByRole('button', { name: /GPUs by slurm/ }).click()
  await line.getByText('begun anew by the cluster').waitFor()
  await picture(page, 'device')
  const { attempts } = await server.ended(id)
  await line.getByText('succeeded').waitFor()
  const spent = attempts[0].starts!.reduce((sum, start) => sum + 2 * (start.endedAt! - start.startedAt), 0) / 1000
  await expect.poll(cost).toBeCloseTo(spent, 1)

  // Tokens as the sampler drew them, spelled by the tokenizer in the hub's cache of the cluster.
  await page.keyboard.press('Escape')
  await page.getByText('4 tokens sampled').waitFor()
  await page.getByRole('slider', { name: /^Tokens of the answer/ }).focus()
  await page.keyboard.press('ArrowRight')
  await page.getByText('log μ −0.500').waitFor()
  await page.getByText('what the update made of each token is not told').waitFor()
  await picture(page, 'samples')

  // There is nobody to sign in here, no model server, and no socket that reloads the page.
  expect(errors.filter((error) => !/\/api\/(session|proxy\/)|vite/.test(error))).toEqual([])
}, 120_000)
