// `npm test`, on a fresh clone too: installs what is missing, then runs types, lint, the build, plain tests and browser
// tests, each stage whatever became of the ones before it. `npm test -- types plain` runs only those stages.
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
      (await run('typescript/bin/tsc', ['--noEmit'])) === 0 &&
        (await run('svelte-check/bin/svelte-check', [
          ...['--tsconfig', './tsconfig.json', '--output', 'human', '--fail-on-warnings'],
        ])) === 0,
    ),
  lint: async () => one((await run('@biomejs/biome/bin/biome', ['check', '.'])) === 0),
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
}

try {
  checkNode()
  await install({ development: true })
  const chosen = process.argv.slice(2)
  const unknown = chosen.filter((name) => !(name in STAGES))
  if (unknown.length)
    throw new Refusal(`No stage is called ${unknown[0]}: there are ${Object.keys(STAGES).join(', ')}.`)
  const total = { passed: 0, failed: 0 }
  for (const [name, stage] of Object.entries(STAGES)) {
    if (chosen.length && !chosen.includes(name)) continue
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
 * One vitest project. A file that does not load, and an error outside of any test, count as one failure each.
 * @param {string} project
 * @returns {Promise<Count>}
 */
async function vitest(project) {
  const report = join(reports, `${project}.json`)
  const code = await run('vitest/vitest.mjs', [
    ...['run', '--project', project, '--reporter', 'default', '--reporter', 'json', '--outputFile', report],
  ])
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
 * Runs a program of node_modules and resolves to its exit code.
 * @param {string} script
 * @param {string[]} args
 * @returns {Promise<number | null>}
 */
function run(script, args) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [join(ROOT, 'node_modules', script), ...args], {
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
