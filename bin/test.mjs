// `npm test`, on a fresh clone too: installs what is missing, then runs types, lint, the build, plain tests and browser
// tests, each stage whatever became of the ones before it. `npm test -- types plain` runs only those stages;
// `npm test -- --cluster` runs them all and then the cluster's, which bring a Slurm and a Ray where they can be installed.
// The last line is `N passed, N failed`; types, lint and build count as one test each.

import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findOrInstallChromium } from './chromium.mjs'
import { build, checkNode, install, Refusal, ROOT } from './prepare.mjs'

/** @typedef {{ passed: number, failed: number }} Count */

const reports = mkdtempSync(join(tmpdir(), 'rollout-lab-test-'))

/** @type {Record<string, () => Promise<Count>>} */
const STAGES = {
  types: async () =>
    one(
      (await run('node_modules/typescript/bin/tsc', ['--noEmit'])) === 0 &&
        (await run('node_modules/svelte-check/bin/svelte-check', [
          ...['--tsconfig', './tsconfig.json', '--output', 'human', '--fail-on-warnings'],
        ])) === 0,
    ),
  lint: async () => one((await run('node_modules/@biomejs/biome/bin/biome', ['check', '.'])) === 0),
  build: async () => {
    try {
      await build(['node', 'web'])
      return one(true)
    } catch (error) {
      process.stderr.write(`${error instanceof Error ? error.message : error}\n`)
      return one(false)
    }
  },
  plain: () => vitest('plain'),
  browser: async () => {
    process.env.CHROME_PATH = await findOrInstallChromium()
    process.stdout.write(`${process.env.CHROME_PATH}\n`)
    return vitest('browser')
  },
  cluster: () => counted('cluster', (report) => run('test/cluster/run.mjs', ['--report', report])),
}
const FLAG = '--cluster'

try {
  checkNode()
  await install({ development: true })
  const args = process.argv.slice(2)
  const named = args.filter((arg) => arg !== FLAG)
  const usual = Object.keys(STAGES).filter((name) => name !== 'cluster')
  const chosen = [...(named.length ? named : usual), ...(args.includes(FLAG) ? ['cluster'] : [])]
  const unknown = chosen.filter((name) => !(name in STAGES))
  if (unknown.length)
    throw new Refusal(`No stage is called ${unknown[0]}: there are ${Object.keys(STAGES).join(', ')}.`)
  const total = { passed: 0, failed: 0 }
  for (const [name, stage] of Object.entries(STAGES)) {
    if (!chosen.includes(name)) continue
    process.stdout.write(`\n── ${name} ──\n`)
    const started = Date.now()
    const { passed, failed } = await stage()
    const seconds = ((Date.now() - started) / 1000).toFixed(0)
    process.stdout.write(`── ${name}: ${passed} passed, ${failed} failed in ${seconds} s\n`)
    total.passed += passed
    total.failed += failed
  }
  process.exitCode = total.failed ? 1 : 0
  process.stdout.write(`\n${total.passed} passed, ${total.failed} failed\n`)
} catch (error) {
  if (!(error instanceof Refusal)) throw error
  process.stderr.write(`${error.message}\n`)
  process.stdout.write('\n0 passed, 1 failed\n')
  process.exitCode = 1
} finally {
  rmSync(reports, { recursive: true, force: true })
}

/**
 * One vitest project.
 * @param {string} project
 * @returns {Promise<Count>}
 */
function vitest(project) {
  const reporters = ['--reporter', 'default', '--reporter', 'json', '--outputFile']
  return counted(project, (report) => {
    return run('node_modules/vitest/vitest.mjs', ['run', '--project', project, ...reporters, report])
  })
}

/**
 * What a run of vitest has reported. A file that does not load, and an error outside of any test, count as one failure each.
 * @param {string} name
 * @param {(report: string) => Promise<number | null>} run
 * @returns {Promise<Count>}
 */
async function counted(name, run) {
  const report = join(reports, `${name}.json`)
  const code = await run(report)
  if (!existsSync(report)) return one(false)
  const { numPassedTests, numFailedTests, testResults } = JSON.parse(readFileSync(report, 'utf8'))
  const passed = numPassedTests
  const failed =
    numFailedTests +
    testResults.filter(
      (/** @type {{ status: string, assertionResults: { status: string }[] }} */ file) =>
        file.status === 'failed' && !file.assertionResults.some(({ status }) => status === 'failed'),
    ).length
  return { passed, failed: code !== 0 && failed === 0 ? 1 : failed }
}

/**
 * Runs a program of Node's and resolves to its exit code.
 * @param {string} script
 * @param {string[]} args
 * @returns {Promise<number | null>}
 */
function run(script, args) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [join(ROOT, script), ...args], {
      cwd: ROOT,
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    child.on('close', resolve)
  })
}

/**
 * @param {boolean} passed
 * @returns {Count}
 */
function one(passed) {
  return passed ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 }
}
