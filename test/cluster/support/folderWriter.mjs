// Fills many run folders at once, as prime-rl would: `node folderWriter.mjs <runs_root>`. Finds the runs that were handed
// over (folderScheduler.ts), and writes each at its pace in portions that tear its lines. Of three runs one is written at
// once, one grows on, and one falls silent in the middle, until the file `finish` lies beside the runs.

import { appendFileSync, existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { runFolder } from './runFolder.mjs'

const [, , runsRoot] = process.argv
const { parse } = createRequire(import.meta.url)('smol-toml')
const TURN_MS = 50
const MOST_BYTES = 4000

/** @type {Map<string, () => boolean>} by run, a turn of writing that says whether there is more to come */
const writers = new Map()

setInterval(() => {
  for (const run of existsSync(runsRoot) ? readdirSync(runsRoot) : []) {
    if (!writers.has(run) && existsSync(join(runsRoot, run, 'launched.json')))
      writers.set(run, writer(run, writers.size))
  }
  for (const write of writers.values()) write()
}, TURN_MS)

/** @param {string} run @param {number} index */
function writer(run, index) {
  const folder = join(runsRoot, run)
  const launched = JSON.parse(readFileSync(join(folder, 'launched.json'), 'utf8'))
  const config = parse(readFileSync(launched.config, 'utf8'))
  const { group_size: group, batch_size: batch, train } = config.orchestrator
  /** Lines on their way, in order. @type {{ path: string, bytes: Buffer }[]} */
  const pending = []
  const append = (/** @type {string} */ path, /** @type {string} */ text) => {
    pending.push({ path, bytes: Buffer.from(text) })
  }
  const job = join(launched.folder, 'job_folder.log')
  const output = runFolder(launched.output, config, {
    ...{ tasks: batch / group, group, environment: train.source[0].env.taskset.id, interval: undefined },
    ...{ append, shift: index * 1e-6 },
  })
  writeFileSync(join(launched.folder, 'started'), `${Math.floor(Date.now() / 1000)}\n`)
  append(job, `Starting run ${index}\n`)
  output.log('inference', 'serving')
  let step = 0
  let over = false

  /** @param {number} most */
  const flush = (most) => {
    for (let left = most; left > 0 && pending.length > 0; ) {
      const [first] = pending
      const part = first.bytes.subarray(0, left)
      appendFileSync(first.path, part)
      left -= part.length
      first.bytes = first.bytes.subarray(part.length)
      if (first.bytes.length === 0) pending.shift()
    }
  }
  return () => {
    if (over) return false
    const finishing = index % 3 === 0 || existsSync(join(runsRoot, 'finish'))
    const silent = index % 3 === 2 && step >= config.max_steps / 2
    if (pending.length === 0 && step < config.max_steps && (finishing || !silent)) {
      step++
      output.rollOut(step)
      output.orchestrated(step)
      output.trained(step, { seconds: 1, waited: 0.5 })
      append(job, `step ${step} of run ${index}\n`)
    }
    flush(finishing ? Number.POSITIVE_INFINITY : 1 + Math.floor(Math.random() * MOST_BYTES))
    if (step < config.max_steps || pending.length > 0) return true
    writeFileSync(join(folder, 'ended.partial'), '')
    renameSync(join(folder, 'ended.partial'), join(folder, 'ended'))
    over = true
    return false
  }
}
