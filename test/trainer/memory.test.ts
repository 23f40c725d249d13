import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ROOT } from '../../build/paths.ts'
import { load } from '../../configs/load.ts'
import { openTrainer } from '../../workers/host.node.ts'
import type { RunEvent } from '../../workers/protocol.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollout-lab-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const SET = ['max_steps=200', 'batch_size=4', 'rollouts_per_example=2', 'eval.interval=100', 'eval.num_examples=4']

async function nano(set: string[]) {
  const text = await readFile(join(ROOT, 'configs/rl/reverse-text-nano.toml'), 'utf8')
  const loaded = load(text, { set: [...set, 'browser.backend="wasm"'] })
  if (loaded.problems) throw new Error(loaded.problems.map(({ sentence }) => sentence).join('\n'))
  return loaded.config
}

describe('a long run of lab-nano in a thread', () => {
  // Tensors, buffers and bytes are constant from the step at which every bucket of lengths has been seen; each bucket
  // keeps its tables of positions (3 tensors).
  it('holds the same tensors, buffers and bytes after 200 steps as after 50', async () => {
    const { trainer, close } = await openTrainer({ root: ROOT, runs: folder })
    const memory: Extract<RunEvent, { kind: 'memory' }>[] = []
    const ended = new Promise<string>((resolve) => {
      trainer.subscribe((event) => {
        if (event.kind === 'memory') memory.push(event)
        if (event.kind === 'state' && ['finished', 'failed', 'stopped'].includes(event.state)) resolve(event.state)
      })
    })
    await trainer.start({ run: 'long', config: await nano(SET) })
    await trainer.play()
    expect(await ended).toBe('finished')
    await close()
    expect(memory).toHaveLength(200)
    const held = memory.slice(50).map(({ gpuBytes, tensors, buffers }) => `${gpuBytes} ${tensors} ${buffers}`)
    expect(new Set(held).size).toBe(1)
  }, 180_000)

  it('that is ended in the middle can be resumed in the same process', async () => {
    const config = await nano(SET)
    const first = await openTrainer({ root: ROOT, runs: folder })
    await first.trainer.start({ run: 'ended', config })
    await first.trainer.step()
    await first.trainer.play()
    await first.close()
    const second = await openTrainer({ root: ROOT, runs: folder })
    const { step, attempt } = await second.trainer.start({ run: 'ended', config, resume: true })
    expect([step >= 1, attempt]).toEqual([true, 2])
    await second.trainer.stop()
    await second.close()
  }, 60_000)
})
