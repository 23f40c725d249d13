// From a run's points to the series that charts draw. Keys are those of workers/rl/metrics.ts.

import type { Metric } from '../../workers/rl/metrics.ts'
import { bytes, count, fixed, number } from '../format.ts'
import type { EvaluationPoint, StepPoint } from '../state/run.svelte.ts'

export interface Point {
  step: number
  value: number
}

export function series(steps: StepPoint[], key: string): Point[] {
  return steps.map(({ step, metrics }) => ({ step, value: metrics[key] ?? Number.NaN }))
}

/** Held-out reward by step: over all environments where the evaluation says so, else the mean over them. */
export function heldOutReward(evaluations: EvaluationPoint[]): Point[] {
  const values = new Map<number, number[]>()
  for (const { step, metrics } of evaluations) {
    const value = metrics['eval/reward/mean'] ?? averageAt(metrics)
    if (value !== undefined) values.set(step, [...(values.get(step) ?? []), value])
  }
  return [...values]
    .map(([step, found]) => ({ step, value: found.reduce((a, b) => a + b, 0) / found.length }))
    .sort((a, b) => a.step - b.step)
}

function averageAt(metrics: Record<string, number>): number | undefined {
  const key = Object.keys(metrics).find((name) => /^eval\/.+\/avg@\d+$/.test(name))
  return key === undefined ? undefined : metrics[key]
}

/** A value with its unit, as the table of metrics gives it. */
export function inUnit(value: number, unit: Metric['unit'] | undefined): string {
  switch (unit) {
    case 'reward':
      return fixed(value)
    case 'share':
      return `${number(value * 100)} %`
    case 'tokens':
      return value < 1000 ? number(value) : count(value)
    case 'tokens/s':
      return `${number(value)} tok/s`
    case 's':
      return `${fixed(value)} s`
    case 'GiB':
      return bytes(value * 2 ** 30)
    default:
      return number(value)
  }
}
