// How much the proxy costs against the least that a proxy on Hono can be. wrk, alternating repeats, medians.

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startProgram, stop } from './programs.mjs'

const POST = join(import.meta.dirname, 'post.lua')
const run = promisify(execFile)

/**
 * @typedef {{ perSecond: number, meanMs: number, p99Ms: number, errors: number }} Measured
 * @param {string} url
 * @param {number} connections
 * @param {number} seconds
 * @returns {Promise<Measured>}
 */
async function wrk(url, connections, seconds) {
  const options = ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', POST]
  const { stdout } = await run('wrk', [...options, `${url}/v1/chat/completions`])
  const [requests, microseconds, , , p99Ms, errors] = (stdout.match(/RESULT (.*)/)?.[1] ?? '').split(' ').map(Number)
  const perSecond = requests / (microseconds / 1e6)
  // Every connection asks again as soon as it is answered, so the mean follows; wrk's own is corrected for omissions.
  return { perSecond, meanMs: (connections / perSecond) * 1000, p99Ms, errors }
}

/** @param {number[]} values */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)]
}

/** @param {{ repeats: number, seconds: number }} options */
export async function throughput({ repeats, seconds }) {
  const upstream = await startProgram('upstream')
  const ways = {
    direct: upstream,
    'bare Hono, undici.request': await startProgram('bare', [upstream.url]),
    'bare Hono, fetch': await startProgram('bare', [upstream.url], { BARE: 'fetch' }),
    'the proxy': await startProgram('door', [upstream.url]),
  }
  await new Promise((resolve) => setTimeout(resolve, 1000))
  const rows = []
  for (const connections of [1, 64]) {
    /** @type {Map<string, Measured[]>} */
    const results = new Map(Object.keys(ways).map((name) => [name, []]))
    for (const way of Object.values(ways)) await wrk(way.url, connections, 2)
    for (let repeat = 0; repeat < repeats; repeat++)
      for (const [name, way] of Object.entries(ways)) results.get(name)?.push(await wrk(way.url, connections, seconds))
    for (const [way, list] of results)
      rows.push({
        way,
        inFlight: connections,
        perSecond: Math.round(median(list.map((one) => one.perSecond))),
        meanMs: Number(median(list.map((one) => one.meanMs)).toFixed(3)),
        p99Ms: Number(median(list.map((one) => one.p99Ms)).toFixed(2)),
        errors: list.reduce((sum, one) => sum + one.errors, 0),
      })
  }
  for (const way of Object.values(ways)) await stop(way.child)
  return rows
}
