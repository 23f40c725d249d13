// `npm run test:cluster`: full-size runs through a real Slurm of two nodes and a real Ray, on loopback, with a stand-in for
// the program that trains. Brings what it can: Debian's Slurm by apt-get where it may, Ray into a virtual environment under
// node_modules/.cache; with `--newer` also a Debian with a newer Slurm. What cannot be had, or cannot be started here, is
// printed as skipped; with `--require slurm,ray` that is a failure. After 25 minutes all is ended, and has failed.
// `--report FILE` writes what passed and failed as JSON; other words choose files of tests, as vitest does.

import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { endProcessesOf } from './support/processes.mjs'

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..')
const CACHE = join(ROOT, 'node_modules/.cache/cluster')
const RAY = join(CACHE, 'ray')
const RAY_VERSION = '2.48.0'
const SLURM = ['slurm-wlm', 'slurmrestd', 'munge', 'slurm-wlm-jwt-plugin']
const NEWER = join(CACHE, 'trixie')
const MINUTES = 25
const until = Date.now() + MINUTES * 60_000
const root = process.getuid?.() === 0

const { values, positionals } = parseArgs({
  options: { require: { type: 'string', default: '' }, report: { type: 'string' }, newer: { type: 'boolean' } },
  allowPositionals: true,
})
const required = values.require.split(',').filter(Boolean)

/** @type {[string, () => string | null][]} */
const parts = [
  ['slurm', slurm],
  ['ray', ray],
]
if (values.newer) parts.push(['newer', newer])
let failed = false
for (const [name, bring] of parts) {
  const missing = bring()
  process.stdout.write(missing ? `${name}: SKIPPED, ${missing}\n` : `${name}: installed\n`)
  if (missing && required.includes(name)) failed = true
}
const code = await tests()
process.exitCode = failed ? 1 : code

/** Everything that the tests start has a temporary folder of this run's in its environment or on its command line. */
async function tests() {
  // Jobs belong to another user, who sees what is made here.
  process.umask(0o022)
  const folder = mkdtempSync('/tmp/rlc-')
  chmodSync(folder, 0o755)
  const reporters = ['--reporter', 'default', ...(values.report ? ['--reporter', 'json'] : [])]
  const output = values.report ? ['--outputFile.json', values.report] : []
  const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs')
  const child = spawn(
    process.execPath,
    [vitest, 'run', '--project', 'cluster', ...reporters, ...output, ...positionals],
    {
      cwd: ROOT,
      stdio: ['ignore', 'inherit', 'inherit'],
      env: {
        ...process.env,
        TMPDIR: folder,
        CLUSTER_REQUIRE: required.join(),
        CLUSTER_NEWER: values.newer && existsSync(NEWER) ? NEWER : '',
      },
    },
  )
  const timer = setTimeout(() => {
    process.stdout.write(`The cluster's tests took longer than ${MINUTES} minutes and are ended.\n`)
    endProcessesOf(folder)
  }, until - Date.now())
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM']))
    process.once(signal, () => {
      endProcessesOf(folder)
    })
  const code = await new Promise((resolve) => child.on('close', (status) => resolve(status ?? 1)))
  clearTimeout(timer)
  await endProcessesOf(folder)
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  return code
}

/** Null where it is there, otherwise why not; so are the next ones. */
function slurm() {
  if (!root) return 'Slurm is started as root only'
  return existsSync('/usr/sbin/slurmrestd') ? null : packages(SLURM)
}

function ray() {
  if (existsSync(join(RAY, 'bin/ray'))) return null
  const python = ['python3.12', 'python3.11', 'python3.10', 'python3'].find(
    (name) => run(name, ['-c', 'import sys; sys.exit(0 if (3, 9) <= sys.version_info < (3, 13) else 1)']) === null,
  )
  if (!python) return 'no Python from 3.9 to 3.12 is installed'
  mkdirSync(CACHE, { recursive: true })
  // Debian's Python makes virtual environments with a package of its own.
  const made = run(python, ['-m', 'venv', RAY]) && root ? packages(['python3-venv']) : null
  const again = made ?? run(python, ['-m', 'venv', RAY])
  if (again) return `no virtual environment can be made: ${again}`
  const got = run(join(RAY, 'bin/python'), ['-m', 'pip', 'install', '-q', `ray[default]==${RAY_VERSION}`])
  return got && `ray ${RAY_VERSION} cannot be installed: ${got}`
}

function newer() {
  if (!root) return 'a Debian in a folder is made as root only'
  if (existsSync(NEWER)) return null
  const mirror = mirrorOf()
  if (!mirror) return 'no mirror of Debian is named in /etc/apt'
  const missing = run('debootstrap', ['--version']) && packages(['debootstrap'])
  if (missing) return missing
  mkdirSync(CACHE, { recursive: true })
  const partial = `${NEWER}.partial`
  rmSync(partial, { recursive: true, force: true })
  const made = run('debootstrap', ['--variant=minbase', `--include=${SLURM.join()}`, 'trixie', partial, mirror])
  if (made) return `debootstrap trixie: ${made}`
  renameSync(partial, NEWER)
  return null
}

/** @param {string[]} names */
function packages(names) {
  const updated = run('apt-get', ['update', '-qq'])
  if (updated) return `apt-get update: ${updated}`
  const installed = run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...names])
  return installed && `apt-get install: ${installed}`
}

/** Where this machine's own packages come from. */
function mirrorOf() {
  const folder = '/etc/apt/sources.list.d'
  const files = [
    '/etc/apt/sources.list',
    ...(existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : []),
  ]
  const text = files.map((file) => (existsSync(file) ? readFileSync(file, 'utf8') : '')).join('\n')
  const named = [...text.matchAll(/^(?:URIs:|deb(?:\s+\[[^\]]*\])?)\s+(\S+)/gm)].map(([, address]) => address)
  return named.find((address) => /\/debian\/?$/.test(address))
}

/**
 * Null where it ended well, otherwise the last that it said. Nothing may take longer than all.
 * @param {string} command
 * @param {string[]} args
 */
function run(command, args) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const timeout = Math.max(1, Math.min(10 * 60_000, until - Date.now()))
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8', env, timeout })
  if (status === 0) return null
  return error?.message ?? ((stderr || stdout).trim().split('\n').pop() || `it ended with code ${status}`)
}
