import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { ROOT } from '../../../build/paths.ts'
import { main } from '../../../cli/main.ts'
import { DEFAULT_CONFIG } from '../../../server/config.ts'
import { ConfigFile } from '../../../server/configFile.ts'
import { type Serving, serve } from '../../../server/main.ts'
import type { Preview, RunDetails, RunView } from '../../../server/runs/views.ts'
import { buildPrograms, type Programs, STAND_IN } from '../engines/standInProgram.ts'

let programs: Programs
beforeAll(async () => {
  programs = await buildPrograms()
}, 120_000)
afterAll(() => programs.remove())

let folder: string
let config: string
let server: Serving
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollout-lab-cli-'))
  config = join(folder, 'config.json')
  await writeFile(config, JSON.stringify({ ...STAND_IN, checkpointing: { save_every_n_steps: 2 } }))
  vi.stubEnv('ROLLOUT_LAB_DATA', join(folder, 'data'))
  await start()
})
afterEach(async () => {
  await server.close()
  vi.unstubAllEnvs()
  vi.restoreAllMocks()
  await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
})

async function start(): Promise<void> {
  const local = { models: ['table'], trainer: programs.trainer }
  const config = new ConfigFile(null, { ...DEFAULT_CONFIG, log: { ...DEFAULT_CONFIG.log, level: 'warn' } })
  server = await serve({ webRoot: folder, port: 0, runs: { root: ROOT, data: join(folder, 'data'), local }, config })
}

/** A command line with what it prints. */
async function run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const [out, err]: [string[], string[]] = [[], []]
  const taking = (parts: string[]) => (bytes: string | Uint8Array) => {
    parts.push(Buffer.from(bytes as string).toString())
    return true
  }
  const mocks = [
    vi.spyOn(process.stdout, 'write').mockImplementation(taking(out) as never),
    vi.spyOn(process.stderr, 'write').mockImplementation(taking(err) as never),
  ]
  try {
    const code = await main(args, { root: ROOT, buildPage: async () => {} })
    return { code, out: out.join(''), err: err.join('') }
  } finally {
    for (const mock of mocks) mock.mockRestore()
  }
}

async function submitted(...args: string[]): Promise<RunView> {
  const { code, out } = await run('submit', config, '--json', ...args)
  expect(code).toBe(0)
  return JSON.parse(out)
}

const pace = (milliseconds: number) => writeFile(join(folder, 'data/local/runs/pace'), String(milliseconds))
const details = async (id: string) => JSON.parse((await run('runs', 'get', id, '--json')).out) as RunDetails

describe('submit', () => {
  it('follows a run to its end, a line a step', async () => {
    const { code, out } = await run('submit', config, '--name', 'told', '--label', 'x', '--follow')
    expect(out).toMatch(/^Run \w{26}, told, on local: queued\.$/m)
    expect(out.match(/^step +\d+ {2}reward/gm)).toHaveLength(6)
    expect(out).toMatch(/^succeeded after 6 of 6 steps\.$/m)
    expect(code).toBe(0)
  })

  it('says what is wrong with a config, and ends with 1', async () => {
    await writeFile(config, '{"max_stepps": 3}')
    const { code, err } = await run('submit', config)
    expect(code).toBe(1)
    expect(err).toMatch(/^1:\d+: .*max_stepps/)
    expect((await run('submit', join(folder, 'nothing.toml'))).err).toMatch(/nothing\.toml cannot be read/)
  })

  it('is the same run under the same key', async () => {
    const first = await submitted('--idempotency-key', 'k')
    expect((await submitted('--idempotency-key', 'k')).id).toBe(first.id)
    const { code, err } = await run('submit', config, '--idempotency-key', 'k', '--set', 'seed=9')
    expect(code).toBe(1)
    expect(err).toMatch(/used for another request/)
  })

  it('shows what would run, and starts nothing', async () => {
    const { code, out } = await run('submit', config, '--preview')
    expect(out).toMatch(/6 steps of 16 rollouts, 3072 tokens at most/)
    expect(out).toMatch(/has not been measured there/)
    expect(code).toBe(0)
    const refused = await run('submit', config, '--preview', '--set', 'model="nowhere"', '--json')
    expect(refused.code).toBe(1)
    expect((JSON.parse(refused.out) as Preview).refusals).toHaveLength(1)
    expect(JSON.parse((await run('runs', 'list', '--json')).out)).toEqual([])
  })

  it('ends with 1 where there is no server', async () => {
    await server.close()
    const { code, err } = await run('runs', 'list')
    expect(code).toBe(1)
    expect(err).toMatch(/rollout-lab serve/)
    await start()
  })
})

describe('runs', () => {
  it('lists and shows them, by their ids or the ends of those', async () => {
    const { id } = await submitted('--name', 'listed')
    await run('runs', 'follow', id)
    const { out } = await run('runs', 'list')
    expect(out).toMatch(new RegExp(`^${id} +succeeded +6/6 +local +table .* listed$`, 'm'))
    const shown = await run('runs', 'get', id.slice(-6).toLowerCase())
    expect(shown.out).toMatch(/succeeded, step 6 of 6, table on local/)
    expect(shown.out).toMatch(/attempt 1: succeeded from step 0/)
    expect((await run('runs', 'get', '0000000')).err).toMatch(
      /None of the newest 1 runs has an id that ends with 0000000/,
    )
    expect((await run('runs', 'logs', id)).out).toContain('environment {')
    expect((await run('runs', 'targets')).out).toMatch(
      /^local: This server\. 0 running, 0 waiting\.\n {2}table: \d+ tokens\/s/,
    )
  })

  it('cancels, with 130 for whoever follows, and resumes', async () => {
    await pace(30)
    const { id } = await submitted('--set', 'max_steps=300')
    const following = run('runs', 'follow', id)
    while ((await fetchRun(id)).step < 2) await new Promise((done) => setTimeout(done, 20))
    await cancelRun(id)
    expect((await following).code).toBe(130)
    await pace(1)
    const { step } = await details(id)
    const resumed = await run('runs', 'resume', id, '--max-steps', String(step + 3), '--follow')
    expect(resumed.code).toBe(0)
    expect(resumed.out).toMatch(new RegExp(`Attempt 2 goes on from the newest save, to step ${step + 3}`))
    expect((await details(id)).attempts.map(({ fromStep }) => fromStep)).toEqual([0, step])
    expect((await run('runs', 'cancel', id)).out).toBe('The run is succeeded.\n')
  })

  it('clones with what is put over the config, and deletes', async () => {
    const { id } = await submitted()
    const { code, out } = await run('runs', 'clone', id, '--set', 'max_steps=2', '--follow')
    expect(code).toBe(0)
    expect(out).toMatch(/succeeded after 2 of 2 steps/)
    await run('runs', 'follow', id)
    expect((await run('runs', 'delete', id)).code).toBe(0)
    expect((await run('runs', 'get', id)).err).toMatch(/There is no run/)
  })

  it('pulls a run into a folder like that of a run here', async () => {
    const { id } = await submitted()
    await run('runs', 'follow', id)
    const out = join(folder, 'pulled')
    expect((await run('runs', 'pull', id, '--out', out)).code).toBe(0)
    const here = join(folder, 'data/local/runs', id)
    const steps = (await readFile(join(out, 'metrics.jsonl'), 'utf8'))
      .trim()
      .split('\n')
      .map((row) => JSON.parse(row).step)
    expect(steps).toEqual([1, 2, 3, 4, 5, 6])
    expect(await readFile(join(out, 'metrics.jsonl'), 'utf8')).toBe(await readFile(join(here, 'metrics.jsonl'), 'utf8'))
    for (const path of ['rollouts/step_3/train/rollouts.jsonl', 'configs/rl.toml', 'adapter/adapter_model.safetensors'])
      expect(await readFile(join(out, path), 'latin1'), path).toBe(await readFile(join(here, path), 'latin1'))
    expect((await readdir(join(out, 'checkpoints'))).sort()).toEqual(['step_2', 'step_4', 'step_6'])
  })
})

describe('backup and restore', () => {
  it('bring a server back with its runs', async () => {
    const { id } = await submitted('--name', 'kept')
    await run('runs', 'follow', id)
    const backup = join(folder, 'backup')
    expect((await run('backup', backup)).out).toMatch(/holds 1 runs.*keep that elsewhere/)
    expect((await run('backup', backup)).err).toMatch(/is there already/)
    await server.close()
    await rm(join(folder, 'data'), { recursive: true })
    expect((await run('restore', backup)).code).toBe(0)
    await start()
    expect(await details(id)).toMatchObject({ name: 'kept', state: 'succeeded', step: 6 })
    expect((await run('runs', 'pull', id, '--out', join(folder, 'pulled'))).code).toBe(0)
    expect((await run('runs', 'resume', id, '--max-steps', '8', '--follow')).out).toMatch(
      /succeeded after 8 of 8 steps/,
    )
  })
})

// Beside a command line that is still running and takes what is printed.
async function fetchRun(id: string): Promise<RunDetails> {
  return (await ask('GET', `runs/${id}`)) as RunDetails
}

async function cancelRun(id: string): Promise<void> {
  await ask('POST', `runs/${id}/cancel`)
}

async function ask(method: string, path: string): Promise<unknown> {
  const { url, key } = JSON.parse(await readFile(join(folder, 'data/server.json'), 'utf8'))
  const answer = await fetch(`${url}api/${path}`, { method, headers: { authorization: `Bearer ${key}` } })
  return answer.json()
}
