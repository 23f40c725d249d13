import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ROOT } from '../../build/paths.ts'
import { type TrainRequest, train } from '../../cli/train.ts'
import { randomFiles } from '../policy/randomModel.ts'

let folder: string
let lines: string[] = []

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollout-lab-'))
  await mkdir(join(folder, 'model'))
  for (const [name, bytes] of Object.entries(randomFiles({}, 1, 0.15)))
    await writeFile(join(folder, 'model', name), bytes)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

// A random network never earns a reward in reverse-text; the entropy bonus gives it something to learn all the same.
const SETTINGS = {
  model: () => join(folder, 'model'),
  max_steps: 6,
  batch_size: 8,
  rollouts_per_example: 4,
  learning_rate: 0.01,
  seq_len: 96,
  'sampling.max_tokens': 12,
  'scheduler.warmup_steps': 0,
  'loss.entropy_coefficient': 0.2,
  'eval.num_examples': 4,
  'eval.interval': 3,
}

function request(run: string, more: Partial<TrainRequest> = {}): TrainRequest {
  lines = []
  return {
    root: ROOT,
    file: join(ROOT, 'configs/rl/reverse-text-nano.toml'),
    set: settings(),
    out: join(folder, run),
    backend: 'wasm',
    write: (line) => lines.push(line),
    ...more,
  }
}

function settings(): string[] {
  return Object.entries(SETTINGS).map(
    ([path, value]) => `${path}=${typeof value === 'function' ? `"${value()}"` : value}`,
  )
}

/** Every sampled token of a run folder with its log μ, step by step. */
async function tokensOf(run: string): Promise<string[]> {
  const steps = (await readdir(join(folder, run, 'rollouts')))
    .map((name) => Number(name.slice(5)))
    .sort((a, b) => a - b)
  const tokens: string[] = []
  for (const step of steps) {
    const file = join(folder, run, `rollouts/step_${step}/train/rollouts.jsonl`)
    for (const line of (await readFile(file, 'utf8').catch(() => '')).split('\n').filter(Boolean)) {
      const { attempt, task_position, tokens: record } = JSON.parse(line)
      tokens.push(`${step}/${task_position}/${attempt} ${record.text.join('|')} ${record.logMu.join(' ')}`)
    }
  }
  return tokens
}

describe('rollout-lab train', () => {
  it('leaves a run folder with metrics, rollouts, checkpoints and a PEFT adapter', async () => {
    expect(await train(request('whole'))).toBe(0)
    expect(lines.filter((line) => /^step +\d+ {2}reward/.test(line))).toHaveLength(6)
    expect(lines.filter((line) => /held-out reward/.test(line))).toHaveLength(3)
    const rows = (await readFile(join(folder, 'whole/metrics.jsonl'), 'utf8'))
      .trim()
      .split('\n')
      .map((row) => JSON.parse(row))
    expect(rows.filter((row) => 'optim/grad_norm' in row).map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6])
    expect((await readdir(join(folder, 'whole/adapter'))).sort()).toEqual([
      'adapter_config.json',
      'adapter_model.safetensors',
    ])
    expect(await readdir(join(folder, 'whole/checkpoints'))).toContain('step_6')
    expect(await tokensOf('whole')).toHaveLength(6 * 8)
    // The resolved config is itself a config.
    expect(await train(request('whole', { file: join(folder, 'whole/configs/rl.toml'), set: [], resume: true }))).toBe(
      0,
    )
    await expect(train(request('whole'))).rejects.toThrow(/holds a run already/)
  }, 60_000)

  it('stops and saves when asked to, and goes on with the tokens of an unbroken run', async () => {
    const stop = new AbortController()
    const write = (line: string) => {
      lines.push(line)
      if (/^step +3 {2}reward/.test(line)) stop.abort()
    }
    expect(await train(request('stopped', { signal: stop.signal, write }))).toBe(130)
    expect(lines.at(-1)).toMatch(/Saved/)
    expect(await tokensOf('stopped')).not.toHaveLength(6 * 8)
    expect(await train(request('stopped', { file: undefined, set: [], resume: true }))).toBe(0)
    expect(await tokensOf('stopped')).toEqual(await tokensOf('whole'))
  }, 60_000)

  it('says what is wrong in a sentence before it begins', async () => {
    await expect(train(request('none', { file: join(folder, 'missing.toml') }))).rejects.toThrow(
      /missing\.toml cannot be read/,
    )
    await expect(train(request('none', { set: ['batch_size=10', 'rollouts_per_example=4'] }))).rejects.toThrow(
      /batch_size/,
    )
    await expect(train(request('none', { set: ['model="file:nobody/knows"'] }))).rejects.toThrow(
      /There is no model file:nobody\/knows/,
    )
    await expect(train(request('none', { resume: true }))).rejects.toThrow(/holds no run to resume/)
  }, 60_000)
})

describe('a killed process', () => {
  it('loses nothing that was shown as saved: it goes on with the tokens of an unbroken run', async () => {
    for (const [run, afterLine] of [
      ['killed-early', 'step    1'],
      ['killed-late', 'step    4'],
    ]) {
      await killAfter(run, afterLine)
      expect(await train(request(run, { resume: true })), lines.join('\n')).toBe(0)
      expect(await tokensOf(run)).toEqual(await tokensOf('whole'))
      const rows = (await readFile(join(folder, run, 'metrics.jsonl'), 'utf8'))
        .trim()
        .split('\n')
        .map((row) => JSON.parse(row))
      expect(rows.filter((row) => 'optim/lr' in row).map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6])
    }
  }, 120_000)
})

/** The command line in a process of its own, killed without warning as soon as it has said something. */
function killAfter(run: string, said: string): Promise<void> {
  const { file, out } = request(run)
  const args = ['train', file as string, '--out', out as string, '--backend', 'wasm', '--set', ...settings()]
  const child = spawn(process.execPath, [join(ROOT, 'bin/rollout-lab.mjs'), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  return new Promise((resolve, reject) => {
    child.stdout.on('data', (data) => {
      output += data
      if (output.includes(said)) child.kill('SIGKILL')
    })
    child.on('exit', (_code, signal) => (signal === 'SIGKILL' ? resolve() : reject(new Error(output))))
  })
}
