// `npm run test:interop`: puts what the compiler writes before the programs that are to read it. Brings them from the Python
// package registry into a virtual environment under node_modules/.cache; what cannot be had is printed as skipped.
//
// Hosted Training: the config model of its client, the package `prime`.
// prime-rl: its own config models, the package `prime-rl-configs`. Where the registry has none, a folder of it may be named:
// PRIME_RL_CONFIGS=…/prime-rl/packages/prime-rl-configs npm run test:interop

import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../../..')
const CACHE = join(ROOT, 'node_modules/.cache/interop')
const CLIENT = 'prime==0.9.0'
const MODELS = process.env.PRIME_RL_CONFIGS ?? 'prime-rl-configs'

/** @param {string} command @param {string[]} args */
const run = (command, args) => spawnSync(command, args, { encoding: 'utf8' })

/** A Python of at least 3.12, which prime-rl asks for, or what a tool of the registry brings; null where there is none. */
function findPython() {
  const pyenv = run('pyenv', ['prefix', '3.12.1'])
  const candidates = [
    'python3.13',
    'python3.12',
    pyenv.status === 0 ? join(pyenv.stdout.trim(), 'bin/python') : '',
    'python3',
  ]
  return candidates.find((command) => {
    const version = command && run(command, ['-c', 'import sys; print(*sys.version_info[:2])'])
    const [major, minor] = version && version.status === 0 ? version.stdout.trim().split(' ').map(Number) : []
    return major === 3 && minor >= 12
  })
}

/**
 * A virtual environment with one package in it, or why not.
 * @param {string} name
 * @param {string} requirement
 */
function environment(name, requirement) {
  const home = join(CACHE, name)
  const python = join(home, 'bin/python')
  const installed = join(home, 'installed')
  if (existsSync(installed)) return { python }
  const base = findPython()
  if (!base) return { missing: 'no Python from 3.12 on is installed' }
  mkdirSync(home, { recursive: true })
  const made = run(base, ['-m', 'venv', home])
  if (made.status !== 0) return { missing: `no virtual environment could be made: ${last(made)}` }
  const got = run(python, ['-m', 'pip', 'install', '-q', requirement])
  if (got.status !== 0) return { missing: `${requirement} cannot be installed: ${last(got)}` }
  writeFileSync(installed, requirement)
  return { python }
}

/** @param {{ stderr: string, stdout: string }} said */
const last = ({ stderr, stdout }) => (stderr || stdout || '').trim().split('\n').pop()

/** @type {Record<string, { python: string, requirement: string }>} */
const oracles = {}
for (const [name, requirement] of [
  ['hosted', CLIENT],
  ['prime-rl', MODELS],
]) {
  const { python, missing } = environment(name, requirement)
  if (python) {
    oracles[name] = { python, requirement }
    process.stdout.write(`${name}: judged by ${requirement}\n`)
  } else process.stdout.write(`${name}: SKIPPED, ${missing}\n`)
}

const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs')
const { status } = spawnSync(process.execPath, [vitest, 'run', '--project', 'plain', 'test/compile/interop.test.ts'], {
  cwd: ROOT,
  stdio: 'inherit',
  env: { ...process.env, ROLLOUT_LAB_ORACLES: JSON.stringify(oracles) },
})
process.exit(status ?? 1)
