// A thousand streams at once: `node streams.js URL`. Prints one JSON line.

import { CHAT, percentile, post } from './load.ts'

const [url, count = '1000'] = process.argv.slice(2)
const gaps: number[] = []
const results = await Promise.all(
  Array.from({ length: Number(count) }, () => {
    let last: number | null = null
    return post(`${url}/v1/chat/completions`, { ...CHAT, stream: true }, () => {
      const now = performance.now()
      if (last !== null) gaps.push(now - last)
      last = now
    })
  }),
)
const bad = results.filter(({ status, broken, text }) => status !== 200 || broken || !text.endsWith('data: [DONE]\n\n'))
const ms = results.map((one) => one.ms)
console.log(
  JSON.stringify({
    streams: results.length,
    errors: bad.length,
    gapP50Ms: Math.round(percentile(gaps, 0.5)),
    gapP99Ms: Math.round(percentile(gaps, 0.99)),
    wholeP50Ms: Math.round(percentile(ms, 0.5)),
    wholeP99Ms: Math.round(percentile(ms, 0.99)),
  }),
)
process.exit(0)
