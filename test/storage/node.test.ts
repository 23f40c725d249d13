import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from 'smol-toml'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { NodeRunLibrary } from '../../workers/storage/node.ts'
import { CONFIG, eventOf, eventsOfStep, saveOf, summaryOf } from './examples.ts'

let root: string
let library: NodeRunLibrary

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'rollout-lab-'))
  library = new NodeRunLibrary(root)
})

afterEach(() => rm(root, { recursive: true, force: true }))

/** A run of three steps, each saved, still open. */
async function threeSteps(run = 'run') {
  const writer = await library.open(run)
  await writer.describe(summaryOf(run))
  for (const step of [1, 2, 3]) {
    await writer.append(eventsOfStep(run, step))
    await writer.save(saveOf(run, step, step * 10 + 3), null)
  }
  return writer
}

describe('a run folder', () => {
  it("has prime-rl's layout", async () => {
    const writer = await threeSteps()
    const files = [{ name: 'adapter_model.safetensors', bytes: Uint8Array.of(1, 2, 3) }]
    await writer.save(saveOf('run', 3), { files, keepLast: null, keepEvery: null })
    await writer.putAdapter(files)
    await writer.close()

    const names = (await readdir(join(root, 'run'), { recursive: true })).sort()
    for (const name of [
      'configs/rl.json',
      'configs/rl.toml',
      'metrics.jsonl',
      'rollouts/step_2/train/rollouts.jsonl',
      'checkpoints/step_3/save.bin',
      'checkpoints/step_3/adapter_model.safetensors',
      'adapter/adapter_model.safetensors',
    ]) {
      expect(names).toContain(name)
    }
    expect(names.filter((name) => /partial|\.old|lock/.test(name))).toEqual([])

    const rows = (await readFile(join(root, 'run/metrics.jsonl'), 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(rows.map(({ step, ...row }) => [step, row['reward/all/mean']])).toEqual([
      [1, 0.1],
      [2, 0.2],
      [3, 0.3],
    ])
    const toml = parse(await readFile(join(root, 'run/configs/rl.toml'), 'utf8'))
    expect(toml).toMatchObject({ model: 'table', batch_size: CONFIG.batch_size, env: [{ id: 'letters' }] })
  })

  it('gives back the events and the samples that were put in', async () => {
    const writer = await threeSteps()
    await writer.close()
    const [, samples, step] = eventsOfStep('run', 2)
    const events = await library.events('run')
    expect(events.map((event) => event.seq)).toEqual([12, 13, 22, 23, 32, 33])
    expect(events[3]).toEqual(step)
    expect(await library.samples('run', 2, 'train')).toEqual(samples)
    expect(await library.samples('run', 2, 'eval')).toBeNull()
  })

  it('keeps the checkpoints that were asked for, and two automatic saves', async () => {
    const writer = await library.open('run')
    await writer.describe(summaryOf('run'))
    const files = [{ name: 'adapter_model.safetensors', bytes: Uint8Array.of(1) }]
    for (let step = 1; step <= 9; step++) {
      await writer.save(saveOf('run', step), step % 2 === 0 ? { files, keepLast: 2, keepEvery: null } : null)
    }
    // Even steps are kept, the last two of them: 6 and 8. Of the odd ones the last two stay: 7 and 9.
    expect((await readdir(join(root, 'run/checkpoints'))).sort()).toEqual(['step_6', 'step_7', 'step_8', 'step_9'])
    expect((await library.files('run')).checkpoints).toEqual([6, 8])
    expect((await library.checkpoint('run', 6)).map((file) => file.name).sort()).toEqual([
      'adapter_model.safetensors',
      'save.bin',
    ])
  })

  it('is listed with its size, newest first, and can be removed', async () => {
    await (await threeSteps('older')).close()
    const newer = await library.open('newer')
    await newer.describe(summaryOf('newer', 5))
    await newer.close()
    expect((await library.list()).map(({ run }) => run)).toEqual(['newer', 'older'])
    const { bytes, savedStep } = await library.files('older')
    expect(bytes).toBeGreaterThan(1000)
    expect(savedStep).toBe(3)
    await library.remove('older')
    expect((await library.list()).map(({ run }) => run)).toEqual(['newer'])
  })
})

describe('a crash at an odd moment', () => {
  it('in the middle of writing a save leaves the one before it', async () => {
    const writer = await threeSteps()
    // Killed while step 4 was being written: its folder has no name yet.
    await mkdir(join(root, 'run/checkpoints/.step_4.partial'))
    await writeFile(join(root, 'run/checkpoints/.step_4.partial/save.bin'), 'half a sa')
    const { record, notes } = await writer.newestSave()
    expect(record).toEqual(saveOf('run', 3, 33))
    expect(notes).toEqual([])
  })

  it('that tears the newest save leaves the other one, and says so', async () => {
    const writer = await threeSteps()
    await truncate(join(root, 'run/checkpoints/step_3/save.bin'), 200)
    const { record, notes } = await writer.newestSave()
    expect(record).toEqual(saveOf('run', 2, 23))
    expect(notes).toHaveLength(1)
    expect(notes[0]).toMatch(/step_3.*torn/)
  })

  it('between the two renames of a repeated save loses neither', async () => {
    const writer = await threeSteps()
    await rename(join(root, 'run/checkpoints/step_3'), join(root, 'run/checkpoints/.step_3.old'))
    expect((await writer.newestSave()).record).toEqual(saveOf('run', 3, 33))
  })

  it('in the middle of a line of events costs that line only', async () => {
    const writer = await threeSteps()
    await writeFile(join(root, 'run/events.jsonl'), '{"kind":"step","st', { flag: 'a' })
    await writer.cut(23)
    expect((await library.events('run')).map((event) => event.seq)).toEqual([12, 13, 22, 23])
    await writer.append([eventOf('run', 40, { kind: 'note', level: 'info', sentence: 'on we go' })])
    expect((await library.events('run')).map((event) => event.seq)).toEqual([12, 13, 22, 23, 40])
  })

  it('leaves nothing past the save once the run goes on: events, metrics and samples are cut', async () => {
    const writer = await threeSteps()
    await writer.cut(23)
    expect(await library.samples('run', 3, 'train')).toBeNull()
    expect(await library.samples('run', 2, 'train')).not.toBeNull()
    const rows = (await readFile(join(root, 'run/metrics.jsonl'), 'utf8')).trim().split('\n')
    expect(rows.map((row) => JSON.parse(row).step)).toEqual([1, 2])
    expect(await readdir(join(root, 'run/rollouts/step_3/train'))).toEqual([])
  })
})

describe('one writer', () => {
  it('is refused a run that another one writes, and gets it afterwards', async () => {
    const first = await library.open('run')
    await expect(library.open('run')).rejects.toThrow(/being written by process/)
    await first.close()
    await (await library.open('run')).close()
  })

  it('gets a run whose writer was killed', async () => {
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
    await mkdir(join(root, 'run'))
    await writeFile(join(root, 'run/writer.lock'), String(child.pid))
    await expect(library.open('run')).rejects.toThrow(String(child.pid))
    child.kill('SIGKILL')
    await new Promise((resolve) => child.on('exit', resolve))
    await (await library.open('run')).close()
  })

  it('gets a run whose writer had its own process id in another life', async () => {
    await mkdir(join(root, 'run'))
    await writeFile(join(root, 'run/writer.lock'), `${process.pid} 1700000000`)
    await (await library.open('run')).close()
  })
})
