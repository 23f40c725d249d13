// metrics.jsonl of two writers -> steps, from any cursor, in any portions, over restarts.

import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ourName } from '../../server/engines/primeRl/metricNames.ts'
import { type MetricsCursor, readMetrics, type StepRecord } from '../../server/engines/primeRl/metricsFile.ts'

const START: MetricsCursor = { offset: 0, told: [] }
const orchestrator = (step: number, time = step) => ({ step, time, 'train/agg/all/agent/reward/mean': step / 10 })
const trainer = (step: number, time = step) => ({ step, time, 'optim/lr': 1e-4, 'loss/mean': -step })
const line = (row: unknown) => `${JSON.stringify(row)}\n`

let folder: string
let file: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'metrics-'))
  file = join(folder, 'metrics.jsonl')
})
afterEach(() => rm(folder, { recursive: true, force: true }))

const steps = (records: StepRecord[]) => records.map(({ step }) => step)

describe('metrics.jsonl', () => {
  test('is nothing before it is there', async () => {
    expect(await readMetrics(file, START, false)).toEqual({ steps: [], evaluations: [], cursor: START })
  })

  test('tells a step once both have written it, under our names', async () => {
    await writeFile(file, line(orchestrator(1)))
    const half = await readMetrics(file, START, false)
    expect(half.steps).toEqual([])
    await appendFile(file, line(trainer(1)) + line(orchestrator(2)))
    const { steps: told } = await readMetrics(file, half.cursor, false)
    expect(told).toEqual([{ step: 1, time: 1000, metrics: { 'reward/mean': 0.1, 'optim/lr': 1e-4, 'loss/mean': -1 } }])
  })

  test('does not wait for the other half for ever', async () => {
    await writeFile(file, line(orchestrator(1)) + line(orchestrator(2)) + line(orchestrator(3)))
    expect(steps((await readMetrics(file, START, false)).steps)).toEqual([1])
    expect(steps((await readMetrics(file, START, true)).steps)).toEqual([1, 2, 3])
  })

  test('tells a step that comes again, after a restart, again', async () => {
    const rows = [1, 2, 3, 2, 3, 4].flatMap((step) => [orchestrator(step), trainer(step)])
    await writeFile(file, rows.map(line).join(''))
    expect(steps((await readMetrics(file, START, true)).steps)).toEqual([1, 2, 3, 2, 3, 4])
  })

  test('a half from before the restart is told alone, and what came again is whole', async () => {
    const rows = [
      orchestrator(1),
      trainer(1),
      orchestrator(2),
      orchestrator(1),
      trainer(1),
      orchestrator(2),
      trainer(2),
    ]
    await writeFile(file, rows.map(line).join(''))
    const { steps: told } = await readMetrics(file, START, true)
    expect(steps(told)).toEqual([1, 1, 2, 2])
    expect(told.at(-1)?.metrics).toMatchObject({ 'reward/mean': 0.2, 'loss/mean': -2 })
  })

  test('leaves out rows by the clock, lines that are torn, and tells evaluations apart', async () => {
    const inference = { step: null, time: 1, 'inference/agg/num_requests_running/mean': 3 }
    const evaluation = { step: 0, time: 1, 'eval/reverse/all/agent/avg@1': 0.3 }
    await writeFile(file, `${line(inference)}not json\n${line(evaluation)}${line(trainer(1)).slice(0, 10)}`)
    const part = await readMetrics(file, START, false)
    expect(part.steps).toEqual([])
    expect(part.evaluations).toEqual([{ step: 0, time: 1000, metrics: { 'eval/reverse/avg@1': 0.3 } }])
    await appendFile(file, `${line(trainer(1)).slice(10)}${line(orchestrator(1))}`)
    expect(steps((await readMetrics(file, part.cursor, false)).steps)).toEqual([1])
  })

  test('a file that has become shorter is another one', async () => {
    await writeFile(file, [1, 2, 3].flatMap((step) => [orchestrator(step), trainer(step)].map(line)).join(''))
    const { cursor } = await readMetrics(file, START, false)
    await writeFile(file, line(orchestrator(9)) + line(trainer(9)))
    expect(steps((await readMetrics(file, cursor, false)).steps)).toEqual([9])
  })

  test('read in any portions it tells the same rows once', async () => {
    const row = fc.tuple(fc.integer({ min: 1, max: 6 }), fc.constantFrom(orchestrator, trainer))
    await fc.assert(
      fc.asyncProperty(
        fc.array(row, { maxLength: 24 }),
        fc.array(fc.integer({ min: 1, max: 200 })),
        async (rows, cuts) => {
          const text = rows.map(([step, make], i) => line({ ...make(step, i + 1), mark: i })).join('')
          await writeFile(file, '')
          let cursor = START
          const told: number[] = []
          const take = async (over: boolean) => {
            const part = await readMetrics(file, JSON.parse(JSON.stringify(cursor)), over)
            cursor = part.cursor
            told.push(...part.steps.flatMap(({ metrics }) => metrics.mark))
            return part.steps.length
          }
          let at = 0
          for (const cut of [...cuts, text.length]) {
            await appendFile(file, text.slice(at, at + cut))
            at += cut
            await take(false)
          }
          await appendFile(file, text.slice(at))
          while ((await take(true)) > 0);
          // Of a pair that was put together the later mark stands; none is told twice.
          expect(new Set(told).size).toBe(told.length)
          expect(cursor.offset).toBe(Buffer.byteLength(text))
        },
      ),
      { numRuns: 60 },
    )
  })
})

test.each([
  ['train/agg/all/agent/reward/mean', 'reward/mean'],
  ['train/reverse-text/all/agent/reward/mean', 'reward/reverse-text/mean'],
  ['train/agg/all/agent/metrics/length/mean', 'metrics/length/mean'],
  ['train/agg/all/stop_condition/max_turns', 'stop_condition/max_turns'],
  ['eval/reverse-text/all/agent/avg@8', 'eval/reverse-text/avg@8'],
  ['time/forward_backward', 'time/learn'],
  ['entropy/all/mean', 'entropy/all/mean'],
  ['watcher/policy_version', 'watcher/policy_version'],
])('%s is %s here', (theirs, ours) => expect(ourName(theirs)).toBe(ours))
