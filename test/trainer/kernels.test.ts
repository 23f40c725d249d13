// GPU time by kernel of a whole run in its own threads, on the compiled policy and software Vulkan: told at step
// boundaries while it is on, never more than the wall clock, and no change to any token.

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ROOT } from '../../build/paths.ts'
import { train } from '../../cli/train.ts'
import { load } from '../../configs/load.ts'
import { openTrainer } from '../../workers/host.node.ts'
import type { RunEvent, Trainer } from '../../workers/protocol.ts'
import { NodeRunLibrary } from '../../workers/storage/node.ts'
import { randomFiles } from '../policy/randomModel.ts'
import { kinds } from './lab.ts'

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollout-lab-'))
  for (const [name, bytes] of Object.entries(randomFiles({}, 1, 0.15))) await writeFile(join(folder, name), bytes)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const RECIPE = join(ROOT, 'configs/rl/reverse-text-nano.toml')

const settings = (engine: 'compiled' | 'plain') => [
  'max_steps=4',
  'batch_size=4',
  'rollouts_per_example=2',
  'sampling.max_tokens=8',
  // Fewer kernels to make.
  'lora.target_modules=["q_proj"]',
  'scheduler.warmup_steps=0',
  // A random network never earns a reward; the entropy bonus gives it something to learn all the same.
  'loss.entropy_coefficient=0.2',
  'eval.interval="None"',
  `model="${folder}"`,
  `browser.engine="${engine}"`,
  `browser.backend="${engine === 'compiled' ? 'webgpu' : 'wasm'}"`,
]

type Timed = Trainer & Required<Pick<Trainer, 'timeKernels'>>

async function run(name: string, engine: 'compiled' | 'plain', during: (trainer: Timed) => Promise<void>) {
  const { config, problems } = load(await readFile(RECIPE, 'utf8'), { set: settings(engine) })
  if (problems) throw new Error(problems.map(({ sentence }) => sentence).join('\n'))
  const { trainer, close } = await openTrainer({ root: ROOT, runs: folder })
  const events: RunEvent[] = []
  try {
    await trainer.subscribe((event) => events.push(event))
    await trainer.start({ run: name, config })
    await during(trainer as Timed)
    await trainer.stop()
  } finally {
    await close()
  }
  return events
}

const tokensOf = (name: string) =>
  Promise.all(
    [1, 2, 3].map(async (step) =>
      (await new NodeRunLibrary(folder).samples(name, step, 'train'))?.groups.flatMap(({ rollouts }) =>
        rollouts.map(({ tokens }) => tokens && [tokens.text, tokens.logMu]),
      ),
    ),
  )

it('tells each step what every kernel took, while it is on', async () => {
  const events = await run('toggled', 'compiled', async (trainer) => {
    await trainer.step()
    await trainer.timeKernels(true)
    await trainer.step()
    await trainer.step()
    await trainer.timeKernels(false)
  })
  expect(kinds(events, 'started')[0].description.capabilities.kernels).toBe(true)
  const told = kinds(events, 'kernels')
  expect(told.map(({ on, since, step }) => [on, since, step])).toEqual([
    [true, 1, 1],
    [true, 1, 2],
    [true, 1, 3],
    [false, 1, 3],
  ])
  const [empty, one, two, last] = told
  expect(empty).toMatchObject({ seconds: 0, kernels: [], untimed: 0 })
  expect(last).toMatchObject({ seconds: two.seconds, kernels: two.kernels, untimed: 0 })
  const names = two.kernels.map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
  // Reading a prompt, sampling, learning and the update are all in it.
  expect(names).toEqual(expect.arrayContaining(['qkv', 'draw', 'attend.forward', 'attend.backwardKeys', 'adamw']))
  const updates = (event: typeof one) => event.kernels.find(({ name }) => name === 'adamw')?.dispatches
  expect([updates(one), updates(two)]).toEqual([1, 2])
  for (const { kernels, seconds, untimed } of [one, two]) {
    expect(untimed).toBe(0)
    const sum = kernels.reduce((total, { milliseconds }) => total + milliseconds, 0)
    expect(sum).toBeGreaterThan(0)
    expect(sum).toBeLessThanOrEqual(seconds * 1000)
  }
}, 240_000)

it('ends a run on the command line with a table, and changes no token', async () => {
  const lines: string[] = []
  const code = await train({
    root: ROOT,
    file: RECIPE,
    set: [...settings('compiled'), 'max_steps=3'],
    out: join(folder, 'timed'),
    timeKernels: true,
    write: (line) => lines.push(line),
  })
  expect(code).toBe(0)
  const at = lines.findIndex((line) => /^Steps 1 to 3: [\d.]+ s in kernels of [\d.]+ s\./.test(line))
  const rows = lines.slice(at).filter((line) => /^ *[\d.]+ % +[\d.]+ ms +\d+ × [\w.]+$/.test(line))
  expect(rows.length).toBeGreaterThan(9)
  const tokens = await tokensOf('timed')
  expect(tokens.flat()).toHaveLength(3 * 4)
  expect(tokens).toEqual(await tokensOf('toggled'))
}, 240_000)

it('is refused in a sentence where nothing can be timed', async () => {
  const events = await run('plain', 'plain', async (trainer) => {
    await expect(trainer.timeKernels(true)).rejects.toThrow(/Timed no kernel: that takes the compiled policy/)
    await trainer.step()
  })
  expect(kinds(events, 'started')[0].description.capabilities.kernels).toBe(false)
  expect(kinds(events, 'step')).toHaveLength(1)
})
