// Processes that belong to a folder: those whose command line or environment names it. Whatever a cluster of a test has
// started, and they have started, is found by the folder of the test, whoever its parent is by now.

import { readdirSync, readFileSync } from 'node:fs'

/**
 * Every process but this one. What belongs to others and may not be read is not among them.
 * @param {string} folder
 * @returns {number[]}
 */
export function processesOf(folder) {
  const named = Buffer.from(folder)
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((name) => ['cmdline', 'environ'].some((file) => holds(`/proc/${name}/${file}`, named)))
    .map(Number)
}

/**
 * The children of a process and theirs, the youngest first.
 * @param {number} pid
 * @returns {number[]}
 */
export function descendantsOf(pid) {
  const parents = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({ pid: Number(name), parent: parentOf(name) }))
  /** @param {number} of @returns {number[]} */
  const below = (of) => parents.filter(({ parent }) => parent === of).flatMap((each) => [...below(each.pid), each.pid])
  return below(pid)
}

/** @param {string} pid */
function parentOf(pid) {
  try {
    return Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').pop()?.split(' ')[1])
  } catch {
    return -1
  }
}

/**
 * Ends them at once, again until there are none: one may have begun another meanwhile.
 * @param {string} folder
 * @returns {Promise<void>}
 */
export async function endProcessesOf(folder) {
  for (let tries = 0; tries < 100; tries++) {
    const left = processesOf(folder)
    if (left.length === 0) return
    for (const pid of left)
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It has gone meanwhile.
      }
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`Processes of ${folder} do not end: ${processesOf(folder).join(', ')}.`)
}

/**
 * @param {string} path
 * @param {Buffer} named
 */
function holds(path, named) {
  try {
    return readFileSync(path).includes(named)
  } catch {
    return false
  }
}
