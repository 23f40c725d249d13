// `npm run test:cluster`: full-size runs through a real Slurm of two nodes and a real Ray, on loopback, with a stand-in for
// the program that trains. Brings what it can: Debian's Slurm by apt-get where it may, Ray into a virtual environment under
// node_modules/.cache. What cannot be had is printed as skipped; with `--require slurm,ray` that is a failure.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..')
const RAY = join(ROOT, 'node_modules/.cache/cluster/ray')
const RAY_VERSION = '2.48.0'
const SLURM = ['slurm-wlm', 'slurmrestd', 'munge', 'slurm-wlm-jwt-plugin']

/** @param {string} command @param {string[]} args */
const run = (command, args) =>
  spawnSync(command, args, { encoding: 'utf8', env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } })

/** @param {{ stderr: string | null, stdout: string | null, error?: Error }} said */
const last = ({ stderr, stdout, error }) => error?.message ?? (stderr || stdout || '').trim().split('\n').pop() ?? ''

/** Null where it is there, otherwise why not. */
function slurm() {
  if (process.getuid?.() !== 0) return 'Slurm is started as root only'
  if (existsSync('/usr/sbin/slurmrestd')) return null
  const updated = run('apt-get', ['update', '-qq'])
  if (updated.status !== 0) return `apt-get update: ${last(updated)}`
  const installed = run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...SLURM])
  return installed.status === 0 ? null : `apt-get install: ${last(installed)}`
}

function ray() {
  if (existsSync(join(RAY, 'bin/ray'))) return null
  const python = ['python3.12', 'python3.11', 'python3.10', 'python3'].find((name) => {
    const said = run(name, ['-c', 'import sys; sys.exit(0 if (3, 9) <= sys.version_info < (3, 13) else 1)'])
    return said.status === 0
  })
  if (!python) return 'no Python from 3.9 to 3.12 is installed'
  mkdirSync(dirname(RAY), { recursive: true })
  const made = run(python, ['-m', 'venv', RAY])
  if (made.status !== 0) return `no virtual environment could be made: ${last(made)}`
  const got = run(join(RAY, 'bin/python'), ['-m', 'pip', 'install', '-q', `ray[default]==${RAY_VERSION}`])
  return got.status === 0 ? null : `ray ${RAY_VERSION} cannot be installed: ${last(got)}`
}

const required = (process.argv[process.argv.indexOf('--require') + 1] ?? '').split(',')
let failed = false
for (const [name, bring] of /** @type {const} */ ([
  ['slurm', slurm],
  ['ray', ray],
])) {
  const missing = bring()
  process.stdout.write(missing ? `${name}: SKIPPED, ${missing}\n` : `${name}: a real one\n`)
  if (missing && process.argv.includes('--require') && required.includes(name)) failed = true
}

const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs')
const { status } = spawnSync(process.execPath, [vitest, 'run', '--project', 'cluster'], { cwd: ROOT, stdio: 'inherit' })
process.exit(failed ? 1 : (status ?? 1))
