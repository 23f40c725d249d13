// One of three nodes hangs while requests come at a quarter of what the proxy can take: `node hung.js URL PID` with the
// proxy's URL and the process of the node that is to hang. Prints one JSON line.

import { CHAT, openLoop, percentile, post } from './load.ts'

const [url, pid, seconds = '10'] = process.argv.slice(2)
const send = () => post(`${url}/v1/chat/completions`, CHAT)

// The capacity, as this client can load it: 64 in flight for two seconds.
let answered = 0
const end = performance.now() + 2000
await Promise.all(
  Array.from({ length: 64 }, async () => {
    while (performance.now() < end) {
      await send()
      answered++
    }
  }),
)
const perSecond = Math.round(answered / 2 / 4)
await openLoop(perSecond, 2, send)
const before = await openLoop(perSecond, Number(seconds), send)
process.kill(Number(pid), 'SIGUSR2')
const during = await openLoop(perSecond, Number(seconds), send)
process.kill(Number(pid), 'SIGUSR2')
const once = during.filter(({ attempts }) => attempts === 1)
const p99 = (results: { ms: number }[]) =>
  Number(
    percentile(
      results.map(({ ms }) => ms),
      0.99,
    ).toFixed(2),
  )
console.log(
  JSON.stringify({
    perSecond,
    errors: [...before, ...during].filter(({ status }) => status !== 200).length,
    p99BeforeMs: p99(before),
    p99OfOthersMs: p99(once),
    caughtByTheHung: during.length - once.length,
    slowestCaughtS: Number(
      (Math.max(0, ...during.filter(({ attempts }) => attempts > 1).map(({ ms }) => ms)) / 1000).toFixed(1),
    ),
  }),
)
process.exit(0)
