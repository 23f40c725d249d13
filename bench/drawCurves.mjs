// Draws what learning.mjs took: one line of held-out reward per seed, and the training reward behind it.
//
//   node bench/drawCurves.mjs docs/results/reverse-text.json docs/results/reverse-text.svg

import { readFileSync, writeFileSync } from 'node:fs'

const [from, to] = process.argv.slice(2)
/** @type {{ seed: number, heldOut: [number, number][], training: number[] }[]} */
const runs = JSON.parse(readFileSync(from, 'utf8')).runs
const steps = Math.max(...runs.flatMap(({ heldOut }) => heldOut.map(([step]) => step)))
const [width, height, left, top] = [720, 280, 44, 16]
const x = (/** @type {number} */ step) => left + (step / steps) * (width - left - 16)
const y = (/** @type {number} */ reward) => top + (1 - reward) * (height - top - 34)
const line = (/** @type {[number, number][]} */ points) =>
  points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(' ')
const colours = ['#1f6fb2', '#5b4bc4', '#2d7d55', '#c2591a']

const grid = [0, 0.25, 0.5, 0.75, 1].map(
  (r) =>
    `<path d="M${left} ${y(r)}H${width - 16}" stroke="#8884" /><text x="${left - 8}" y="${y(r) + 4}" text-anchor="end">${r}</text>`,
)
const ticks = Array.from(
  { length: steps / 5 + 1 },
  (_, i) => `<text x="${x(5 * i)}" y="${height - 12}" text-anchor="middle">${5 * i}</text>`,
)
const lines = runs.map(({ heldOut, training }, i) => {
  const dots = heldOut.map(
    ([step, reward]) => `<circle cx="${x(step)}" cy="${y(reward)}" r="3" fill="${colours[i]}" />`,
  )
  const behind = line(training.map((reward, step) => [step + 1, reward]))
  return `<polyline points="${behind}" fill="none" stroke="${colours[i]}" stroke-opacity=".35" />
<polyline points="${line(heldOut)}" fill="none" stroke="${colours[i]}" stroke-width="2" />${dots.join('')}`
})
writeFileSync(
  to,
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12" fill="#777">
<title>Held-out reward by step (dots), training reward behind it, one colour per seed</title>
${[...grid, ...ticks, ...lines].join('\n')}
</svg>
`,
)
