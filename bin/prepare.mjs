// Makes a checkout ready to run: packages as in the lock file, builds as fresh as the sources. Plain Node, because it
// runs before anything is installed; does nothing, in a few milliseconds, when nothing has changed.

import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const OLDEST_NODE = [20, 19]

/** A sentence for the person at the terminal: shown without a stack. */
export class Refusal extends Error {}

export function checkNode(version = process.versions.node) {
  const [major, minor] = version.split('.').map(Number)
  if (major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1])) return
  throw new Refusal(
    `Rollout Lab needs Node ${OLDEST_NODE.join('.')} or newer, and this is Node ${version}: install a newer one from https://nodejs.org.`,
  )
}

/**
 * Installs the packages of the lock file unless they are already there.
 * @param {{ development?: boolean }} options with `development`, also those that only tests and checks need
 */
export async function install({ development = false } = {}) {
  const missing = missingPackages(ROOT, development)
  if (!missing.length) return
  say(existsSync(join(ROOT, 'node_modules')) ? `Packages differ from the lock file (${missing[0]}).` : 'First start.')
  say('Installing packages (npm ci) …')
  await command(npm(), ['ci', '--no-audit', '--no-fund', ...(development ? ['--include=dev'] : [])], {
    refusal: 'npm ci failed: see its messages above; it needs to reach the npm registry once.',
  })
}

/**
 * The packages whose installed version is not the lock file's. Optional ones may be absent: not every platform has them.
 * @param {string} root
 * @param {boolean} development
 * @returns {string[]}
 */
export function missingPackages(root, development) {
  const wanted = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')).packages
  const record = join(root, 'node_modules/.package-lock.json')
  const present = existsSync(record) ? JSON.parse(readFileSync(record, 'utf8')).packages : {}
  return Object.keys(wanted).filter((path) => {
    if (path === '') return false
    if (wanted[path].dev && !development) return false
    if (!present[path]) return !wanted[path].optional && !wanted[path].devOptional
    return present[path].version !== wanted[path].version
  })
}

/** @typedef {'web' | 'node'} Target */

/** @param {string} folder */
function scriptsIn(folder) {
  const names = existsSync(join(ROOT, folder)) ? readdirSync(join(ROOT, folder)) : []
  return names.filter((name) => name.endsWith('.ts')).map((name) => `${folder}/${name}`)
}

/** What each target is built from. */
const SOURCES = ['configs', 'environments', 'workers', 'server', 'build', 'vite.config.ts']
const TARGETS = {
  web: { sources: [...SOURCES, 'models', 'web', 'svelte.config.js'], mode: 'production' },
  // Checkpoints are read where they lie: a pretraining that writes one makes nothing stale.
  node: { sources: [...SOURCES, ...scriptsIn('models'), 'cli'], mode: 'node' },
}

/**
 * Builds the targets whose sources have changed since they were last built; waits where another process is at it.
 * @param {Target[]} targets
 */
export async function build(targets) {
  for (const target of targets) {
    if (isFresh(target)) continue
    const unlock = await lock(join(ROOT, 'dist', `.${target}.lock`))
    try {
      if (!isFresh(target)) await buildOne(target)
    } finally {
      unlock()
    }
  }
}

/** @param {Target} target */
function isFresh(target) {
  const stampFile = join(ROOT, 'dist', `${target}.stamp`)
  if (!existsSync(join(ROOT, 'dist', target)) || !existsSync(stampFile)) return false
  return readFileSync(stampFile, 'utf8') === stampOf(ROOT, TARGETS[target].sources)
}

/** @param {Target} target */
async function buildOne(target) {
  // Taken before the build: a file that changes meanwhile makes the result stale, as it is.
  const stamp = stampOf(ROOT, TARGETS[target].sources)
  say(`Building ${target === 'web' ? 'the page' : 'the command line and the server'} …`)
  // Built aside and moved into place: a build that fails or is interrupted leaves the last good one.
  const place = join(ROOT, 'dist', target)
  const aside = join(ROOT, 'dist', `.${target}.new`)
  const old = join(ROOT, 'dist', `.${target}.old`)
  await command(process.execPath, [
    join(ROOT, 'node_modules/vite/bin/vite.js'),
    ...['build', '--config', join(ROOT, 'vite.config.ts'), '--mode', TARGETS[target].mode],
    ...['--outDir', aside, '--emptyOutDir', '--logLevel', 'warn'],
  ])
  rmSync(old, { recursive: true, force: true })
  if (existsSync(place)) renameSync(place, old)
  renameSync(aside, place)
  rmSync(old, { recursive: true, force: true })
  writeFileSync(join(ROOT, 'dist', `${target}.stamp`), stamp)
}

/**
 * Waits until this process alone holds the file, and resolves to its release. A dead process holds nothing.
 * @param {string} file
 * @returns {Promise<() => void>}
 */
async function lock(file) {
  mkdirSync(dirname(file), { recursive: true })
  for (;;) {
    try {
      writeFileSync(file, String(process.pid), { flag: 'wx' })
      return () => rmSync(file, { force: true })
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EEXIST') throw error
    }
    if (!isAlive(file)) rmSync(file, { force: true })
    else await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

/** @param {string} file */
function isAlive(file) {
  try {
    process.kill(Number(readFileSync(file, 'utf8')) || process.pid, 0)
    return true
  } catch (error) {
    // The process is another user's, or the file is gone: try again.
    return /** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH'
  }
}

/**
 * A digest of the names, sizes and times of all files under some paths.
 * @param {string} root
 * @param {string[]} paths
 */
export function stampOf(root, paths) {
  const digest = createHash('sha256')
  for (const path of [...paths, 'package.json', 'package-lock.json']) {
    for (const file of filesUnder(join(root, path))) {
      const { size, mtimeMs } = statSync(file)
      digest.update(`${file.slice(root.length)} ${size} ${mtimeMs}\n`)
    }
  }
  return digest.digest('hex')
}

/**
 * @param {string} path
 * @returns {string[]}
 */
function filesUnder(path) {
  if (!existsSync(path)) return []
  if (!statSync(path).isDirectory()) return [path]
  return readdirSync(path)
    .sort()
    .flatMap((name) => filesUnder(join(path, name)))
}

/**
 * Runs a program with its output on our stderr, so that stdout stays the verb's own.
 * @param {string} program
 * @param {string[]} args
 * @param {{ refusal?: string }} options
 * @returns {Promise<void>}
 */
export function command(program, args, { refusal } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: ROOT,
      stdio: ['ignore', 2, 2],
      shell: process.platform === 'win32' && program.endsWith('.cmd'),
    })
    child.on('error', (error) => reject(new Refusal(`${program} could not be started: ${error.message}.`)))
    child.on('close', (code, signal) => {
      if (code === 0) resolve()
      else reject(new Refusal(refusal ?? `${program} ${args.join(' ')} ended with ${signal ?? `code ${code}`}.`))
    })
  })
}

export function npm() {
  return process.platform === 'win32' ? 'npm.cmd' : 'npm'
}

/** @param {string} sentence */
function say(sentence) {
  process.stderr.write(`${sentence}\n`)
}
