// Builds the programs of this bench and starts them, each in a process of its own.

import { execFile, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { build } from 'vite'

const HERE = import.meta.dirname
export const ROOT = join(HERE, '../..')
export const OUT = join(ROOT, 'node_modules/.cache/bench-proxy')
/** @type {import('node:child_process').ChildProcess[]} */
const children = []

const PROGRAMS = ['upstream', 'bare', 'door', 'whole', 'streams', 'killed', 'hung']

export async function buildPrograms() {
  await build({
    configFile: false,
    logLevel: 'error',
    root: ROOT,
    build: {
      ssr: true,
      outDir: OUT,
      emptyOutDir: true,
      target: 'node20',
      minify: false,
      rolldownOptions: {
        input: Object.fromEntries(PROGRAMS.map((name) => [name, join(HERE, `${name}.ts`)])),
        output: { entryFileNames: '[name].js' },
      },
    },
  })
}

/**
 * A program that has printed its port.
 * @param {'upstream' | 'bare' | 'door' | 'whole'} name
 * @param {string[]} [args]
 * @param {Record<string, string>} [env]
 */
export async function startProgram(name, args = [], env = {}) {
  const child = spawn(process.execPath, [join(OUT, `${name}.js`), ...args], {
    env: { ...process.env, NODE_ENV: 'production', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  children.push(child)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const { value } = await lines.next()
  const port = Number(value)
  return { child, port, url: `http://127.0.0.1:${port}`, nextLine: async () => (await lines.next()).value }
}

/**
 * A program that prints one JSON line and ends.
 * @param {'streams' | 'killed' | 'hung'} name
 * @param {string[]} args
 */
export async function runProgram(name, args) {
  const { stdout } = await promisify(execFile)(process.execPath, [join(OUT, `${name}.js`), ...args], {
    timeout: 120_000,
  })
  return JSON.parse(stdout)
}

/** @param {import('node:child_process').ChildProcess} child */
export async function stop(child) {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await gone
}

export async function stopAll() {
  await Promise.all(children.map(stop))
}
