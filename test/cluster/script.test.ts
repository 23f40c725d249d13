// What reaches a cluster: a script of the same bytes for every run, names that are plain words, secrets that arrive letter
// by letter and leave no trace.

import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { FullSizeEngine } from '../../server/engines/primeRl/engine.ts'
import { badVariable, slug } from '../../server/engines/primeRl/names.ts'
import type { Launch, Scheduler } from '../../server/engines/primeRl/scheduler.ts'
import { SCRIPT, secretsFile } from '../../server/engines/primeRl/script.ts'
import { newId } from '../../server/store/ids.ts'
import { fullSizeConfig } from './support/config.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'script-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 40 })

/** Keeps what it is asked to launch. */
function recorder(launches: Launch[]): Scheduler {
  return {
    ...{ target: 'slurm', title: 'Slurm', tables: ['slurm', 'deployment'], multiNode: true },
    async launch(launch, record) {
      launches.push(launch)
      await record('1')
    },
    look: async () => null,
    cancel: async () => {},
    problem: async () => null,
    close: async () => {},
  }
}

describe('the script of a job', () => {
  test('is the same for every run, whatever the run is called and holds', async () => {
    const launches: Launch[] = []
    const engine = new FullSizeEngine(recorder(launches), {
      ...{ folder: join(folder, 'server'), runsRoot: join(folder, 'runs'), project: '/opt/prime-rl', models: 'models' },
    })
    await fc.assert(
      fc.asyncProperty(text, text, async (name, secret) => {
        const config = { ...fullSizeConfig(), name }
        const spec = { run: newId(), attempt: 1, name, project: 'p', config, secrets: { TOKEN: `canary${secret}` } }
        await engine.submit(spec, newId())
        const launch = launches.at(-1)!
        expect(launch.script).toBe(SCRIPT)
        expect(launch.name).toMatch(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/)
        for (const value of Object.values(launch.environment)) expect(value).toMatch(/^[\w./-]*$/)
        expect(JSON.stringify(launch)).not.toContain('canary')
      }),
      { numRuns: 60 },
    )
    expect(new Set(launches.map(({ script }) => script)).size).toBe(1)
  })

  test('gives secrets letter by letter to the program, and leaves no file of them', () => {
    writeFileSync(join(folder, 'program'), '#!/bin/sh\nprintf %s "$ONE" > one\nprintf "%s|" "$@" > args\n', {
      mode: 0o755,
    })
    fc.assert(
      fc.property(fc.oneof(text, fc.constantFrom('$(id)', '`id`', "a'b", 'x\ny', '"; rm -rf /')), (secret) => {
        writeFileSync(join(folder, 'secrets'), secretsFile({ ONE: secret }))
        run({ ROLLOUT_LAB_SECRETS: join(folder, 'secrets') })
        expect(readFileSync(join(folder, 'one'), 'utf8')).toBe(
          Buffer.from(secret.replaceAll('\0', '')).toString('utf8'),
        )
        expect(existsSync(join(folder, 'secrets'))).toBe(false)
      }),
      { numRuns: 25 },
    )
    expect(readFileSync(join(folder, 'args'), 'utf8')).toBe(`@|${join(folder, 'a b.toml')}|`)
  })

  test('goes on from a checkpoint when Slurm has started it again, or begins anew where there is none', () => {
    writeFileSync(join(folder, 'program'), '#!/bin/sh\nprintf "%s|" "$@" > args\n', { mode: 0o755 })
    const args = () => readFileSync(join(folder, 'args'), 'utf8')
    run({ SLURM_RESTART_COUNT: '1' })
    expect(args()).toContain('|--clean|')
    execFileSync('mkdir', ['-p', join(folder, 'output/checkpoints/step_3/trainer')])
    run({ SLURM_RESTART_COUNT: '1' })
    expect(args()).toContain('|--resume|')
    run({ SLURM_RESTART_COUNT: '0' })
    expect(args()).not.toContain('--')
  })

  test('does not begin without its secrets', () => {
    writeFileSync(join(folder, 'program'), '#!/bin/sh\ntouch ran\n', { mode: 0o755 })
    // Two minutes without a pause.
    writeFileSync(join(folder, 'sleep'), '#!/bin/sh\n', { mode: 0o755 })
    const PATH = `${folder}:${process.env.PATH}`
    expect(() => run({ PATH, ROLLOUT_LAB_SECRETS: join(folder, 'secrets') })).toThrow(
      expect.objectContaining({ status: 78, stdout: expect.toSatisfy((said) => `${said}`.includes('did not come')) }),
    )
    expect(existsSync(join(folder, 'ran'))).toBe(false)
  })

  function run(more: Record<string, string>) {
    writeFileSync(join(folder, 'script'), SCRIPT)
    execFileSync('bash', [join(folder, 'script')], {
      env: {
        ...{
          PATH: process.env.PATH,
          ROLLOUT_LAB_PROJECT: folder,
          ROLLOUT_LAB_FOLDER: folder,
          ROLLOUT_LAB_SECRETS: '',
          ROLLOUT_LAB_STEP: 'train',
        },
        ...{ ROLLOUT_LAB_OUTPUT: join(folder, 'output'), ROLLOUT_LAB_CONFIG: join(folder, 'a b.toml') },
        ...{ ROLLOUT_LAB_COMMAND: join(folder, 'program'), ...more },
      },
    })
  }
})

test('names become plain words', () => {
  expect([slug('reverse text', 'x'), slug('..//é$(id)', 'x'), slug('🙂', 'run-1')]).toEqual([
    'reverse-text',
    'e-id',
    'run-1',
  ])
  fc.assert(
    fc.property(text, (name) => {
      expect(slug(name, 'x')).toMatch(/^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/)
    }),
  )
})

test('variables that load programs are no secrets', () => {
  expect(['LD_PRELOAD', 'PATH', 'PYTHONPATH', 'BASH_ENV', 'SLURM_CONF', 'A B', '1A'].map(badVariable)).not.toContain(
    null,
  )
  expect(['WANDB_API_KEY', 'HF_TOKEN', '_x'].map(badVariable)).toEqual([null, null, null])
})

test('a config’s commands, templates and foreign folders are refused or replaced', async () => {
  const launches: Launch[] = []
  const engine = new FullSizeEngine(recorder(launches), {
    ...{ folder: join(folder, 'server'), runsRoot: join(folder, 'runs'), project: '/opt/prime-rl', models: 'models' },
    environments: ['reverse-text', 'primeintellect/'],
  })
  const slurm = { slurm: { pre_run_command: 'id' } }
  expect(engine.refusals(fullSizeConfig(slurm)).join()).toContain('runs as shell on the cluster')
  expect(engine.refusals(fullSizeConfig({ env: [{ id: 'stranger/env' }] })).join()).toContain(
    'not among the environments',
  )
  expect(engine.refusals(fullSizeConfig({ env: [{ id: 'primeintellect/wordle' }] }))).toEqual([])
  const run = newId()
  const config = fullSizeConfig({ output_dir: '/etc', run: { dir: 'elsewhere' } })
  await engine.submit({ run, attempt: 1, name: 'n', project: 'p', config, secrets: {} }, newId())
  const toml = readFileSync(join(folder, 'runs', run, 'attempt_1/config.toml'), 'utf8')
  expect(toml).toContain(`output_dir = "${join(folder, 'runs', run)}"`)
  expect(toml).toContain('dir = "output"')
  expect(toml).not.toMatch(/etc|elsewhere|\[slurm/)
})

test('a job that Slurm has begun anew wants its secrets again, until it has them', async () => {
  let restarts = 0
  const running = {
    state: 'running' as const,
    reason: null,
    exitCode: null,
    nodes: ['n0'],
    startedAt: 1,
    endedAt: null,
  }
  const scheduler: Scheduler = {
    ...recorder([]),
    look: async () => ({ ...running, queuePosition: null, raw: null, restarts }),
  }
  const where = { folder: join(folder, 'server'), runsRoot: join(folder, 'runs'), project: '/opt', models: 'models' }
  const first = new FullSizeEngine(scheduler, where)
  const spec = { attempt: 1, name: 'n', project: 'p', config: fullSizeConfig() }
  const [run, plain] = [newId(), newId()]
  const secrets = { TOKEN: 'letters' }
  const { engineId } = await first.submit({ ...spec, run, secrets }, newId())
  const { engineId: without } = await first.submit({ ...spec, run: plain, secrets: {} }, newId())
  expect((await first.get(engineId))?.wantsSecrets).toBeUndefined()

  const file = join(folder, 'runs', run, 'attempt_1/secrets')
  rmSync(file)
  restarts = 1
  const second = new FullSizeEngine(scheduler, where)
  expect((await second.get(engineId))?.wantsSecrets).toBe(true)
  expect((await second.get(without))?.wantsSecrets).toBeUndefined()
  await second.renewSecrets(engineId, secrets)
  expect(readFileSync(file)).toEqual(secretsFile(secrets))
  expect((await second.get(engineId))?.wantsSecrets).toBeUndefined()
})
