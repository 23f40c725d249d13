// How much the proxy costs against the least that a proxy on Hono can be. wrk, alternating repeats, medians.

import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startProgram, stop } from './programs.mjs'

const POST = join(import.meta.dirname, 'post.lua')
const run = promisify(execFile)

/** @typedef {{ url: string, child: import('node:child_process').ChildProcess, key?: string }} Way */

/**
 * @typedef {{ perSecond: number, meanMs: number, p99Ms: number, cpuUs: number, errors: number }} Measured
 * @param {Way} way
 * @param {number} connections
 * @param {number} seconds
 * @returns {Promise<Measured>}
 */
async function wrk({ url, child, key }, connections, seconds) {
  const options = ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', POST]
  const before = cpuMs(child.pid ?? 0)
  const env = { ...process.env, BENCH_KEY: key ?? 'bench' }
  const { stdout } = await run('wrk', [...options, `${url}/v1/chat/completions`], { env })
  const [requests, microseconds, , , p99Ms, errors] = (stdout.match(/RESULT (.*)/)?.[1] ?? '').split(' ').map(Number)
  const perSecond = requests / (microseconds / 1e6)
  // Every connection asks again as soon as it is answered, so the mean follows; wrk's own is corrected for omissions.
  const cpuUs = ((cpuMs(child.pid ?? 0) - before) * 1000) / requests
  return { perSecond, meanMs: (connections / perSecond) * 1000, p99Ms, cpuUs, errors }
}

/**
 * What a process has computed: it tells more than the clock where others compute too. Linux counts it in hundredths.
 * @param {number} pid
 */
function cpuMs(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** @param {number[]} values */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)]
}

/** @param {Awaited<ReturnType<typeof startProgram>>} program */
async function withKey(program) {
  program.child.kill('SIGUSR2')
  return { ...program, key: await program.nextLine() }
}

/** @param {{ repeats: number, seconds: number }} options */
export async function throughput({ repeats, seconds }) {
  const upstream = await startProgram('upstream')
  /** @type {Record<string, Way>} */
  const ways = {
    direct: upstream,
    'bare Hono, undici.request': await startProgram('bare', [upstream.url]),
    'bare Hono, fetch': await startProgram('bare', [upstream.url], { BARE: 'fetch' }),
    'the proxy': await startProgram('door', [upstream.url]),
    'the whole server': await withKey(await startProgram('whole', [upstream.url])),
  }
  await new Promise((resolve) => setTimeout(resolve, 1000))
  const rows = []
  for (const connections of [1, 64]) {
    /** @type {Map<string, Measured[]>} */
    const results = new Map(Object.keys(ways).map((name) => [name, []]))
    for (const way of Object.values(ways)) await wrk(way, connections, 2)
    for (let repeat = 0; repeat < repeats; repeat++)
      for (const [name, way] of Object.entries(ways)) results.get(name)?.push(await wrk(way, connections, seconds))
    for (const [way, list] of results)
      rows.push({
        way,
        inFlight: connections,
        perSecond: Math.round(median(list.map((one) => one.perSecond))),
        meanMs: Number(median(list.map((one) => one.meanMs)).toFixed(3)),
        p99Ms: Number(median(list.map((one) => one.p99Ms)).toFixed(2)),
        cpuUs: Math.round(median(list.map((one) => one.cpuUs))),
        errors: list.reduce((sum, one) => sum + one.errors, 0),
      })
  }
  for (const way of Object.values(ways)) await stop(way.child)
  return rows
}
