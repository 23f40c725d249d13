// Count, mean, deviation and extremes of numbers that arrive in parts: what each pass saw can be merged into what the
// whole step saw. Knows nothing of what the numbers mean.

export interface Moments {
  count: number
  sum: number
  sumOfSquares: number
  /** +∞ when empty. */
  min: number
  /** −∞ when empty. */
  max: number
}

export function noMoments(): Moments {
  return { count: 0, sum: 0, sumOfSquares: 0, min: Number.POSITIVE_INFINITY, max: Number.NEGATIVE_INFINITY }
}

export function observe(moments: Moments, value: number): void {
  moments.count += 1
  moments.sum += value
  moments.sumOfSquares += value * value
  moments.min = Math.min(moments.min, value)
  moments.max = Math.max(moments.max, value)
}

export function momentsOf(values: Iterable<number>): Moments {
  const moments = noMoments()
  for (const value of values) observe(moments, value)
  return moments
}

export function merge(a: Moments, b: Moments): Moments {
  return {
    count: a.count + b.count,
    sum: a.sum + b.sum,
    sumOfSquares: a.sumOfSquares + b.sumOfSquares,
    min: Math.min(a.min, b.min),
    max: Math.max(a.max, b.max),
  }
}

/** 0 when empty. */
export function meanOf(moments: Moments): number {
  return moments.count === 0 ? 0 : moments.sum / moments.count
}

/** √(mean of squares − square of mean): the population's deviation; 0 when empty. */
export function deviationOf(moments: Moments): number {
  if (moments.count === 0) return 0
  const mean = meanOf(moments)
  // Rounding may leave a tiny negative number where all values are equal.
  return Math.sqrt(Math.max(0, moments.sumOfSquares / moments.count - mean * mean))
}

export function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length
}

/** mean((x − mean x)²): the population's variance, exactly 0 for equal values. */
export function variance(values: readonly number[]): number {
  const centre = mean(values)
  return values.every((value) => value === values[0]) ? 0 : mean(values.map((value) => (value - centre) ** 2))
}
