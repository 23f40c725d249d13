// A run's metrics as a series that rules can ask: first values, newest values, extremes. Knows no rule.

import { mean, variance } from '../moments.ts'
import type { Metrics } from '../stepMetrics.ts'

/** Metrics of one finished step; the numbers of an evaluation belong to the step after which it ran. */
export interface StepPoint {
  step: number
  metrics: Metrics
}

/** Steps that a «then» and a «now» average over. */
export const FEW = 3
/** Steps that a habit must have lasted. */
export const WINDOW = 5
/** Steps a run gets before it is called unsteady, and before it is called slow. */
export const PATIENCE = 10
export const LONG = 20

export class Series {
  readonly #points: readonly StepPoint[]

  constructor(points: readonly StepPoint[]) {
    this.#points = [...points].sort((a, b) => a.step - b.step)
  }

  /** Every value of a key, in order of steps; steps that lack it are passed over. */
  values(key: string): number[] {
    return this.#points.map((point) => point.metrics[key]).filter((value) => value !== undefined)
  }

  has(key: string): boolean {
    return this.values(key).length > 0
  }

  last(key: string, count: number): number[] {
    return this.values(key).slice(-count)
  }

  /** Mean of the first `count` values; null while there are fewer. */
  first(key: string, count: number): number | null {
    const values = this.values(key).slice(0, count)
    return values.length < count ? null : mean(values)
  }

  /** Mean of the newest few values; null while there are fewer. */
  now(key: string): number | null {
    const values = this.last(key, FEW)
    return values.length < FEW ? null : mean(values)
  }

  /** From the least to the greatest reward any answer got: the scale on which changes are judged. */
  rewardRange(): number {
    return Math.max(0, ...this.values('reward/max')) - Math.min(0, ...this.values('reward/min')) || 1
  }

  /** The mean reward has come within a tenth of the best that any answer got, where answers ever differed. */
  isSolved(): boolean {
    const [best, least] = [Math.max(...this.values('reward/max')), Math.min(...this.values('reward/min'))]
    const now = this.now('reward/mean')
    return now !== null && best > Math.max(0, least) && now >= 0.9 * best
  }
}

export function deviation(values: readonly number[]): number {
  return Math.sqrt(variance(values))
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted.length === 0 ? 0 : (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2
}

/** Each value less the one before it. */
export function differences(values: readonly number[]): number[] {
  return values.slice(1).map((value, i) => value - values[i])
}

/** Means of every run of `count` neighbours. */
export function averages(values: readonly number[], count: number): number[] {
  return values.slice(count - 1).map((_, i) => mean(values.slice(i, i + count)))
}
