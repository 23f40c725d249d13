// From data to pixels: linear scales, round ticks, paths. Plain functions of numbers; knows nothing of Svelte.

export interface Scale {
  (value: number): number
  domain: [number, number]
  /** From a pixel back to a value. */
  invert(pixel: number): number
}

export function linear(domain: [number, number], range: [number, number]): Scale {
  const [d0, d1] = domain
  const [r0, r1] = range
  const slope = d1 === d0 ? 0 : (r1 - r0) / (d1 - d0)
  const scale = ((value: number) => r0 + (value - d0) * slope) as Scale
  scale.domain = domain
  scale.invert = (pixel) => (slope === 0 ? d0 : d0 + (pixel - r0) / slope)
  return scale
}

/** Round values that cover the domain, about `wanted` of them: steps of 1, 2 or 5 times a power of ten. */
export function ticks([low, high]: [number, number], wanted: number): number[] {
  if (!(high > low)) return [low]
  const raw = (high - low) / Math.max(1, wanted)
  const power = 10 ** Math.floor(Math.log10(raw))
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw * 0.999)!
  const first = Math.ceil(low / step - 1e-9)
  const last = Math.floor(high / step + 1e-9)
  // Multiplied out, because a sum of tenths drifts: 0.1 + 0.2 ≠ 0.3.
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)))
}

/** The smallest round domain around the values, and around the origin where one is given; never empty. */
export function niceDomain(values: number[], origin?: number): [number, number] {
  const finite = values.filter(Number.isFinite)
  if (!finite.length) return [0, 1]
  let low = Math.min(...finite)
  let high = Math.max(...finite)
  if (origin !== undefined) [low, high] = [Math.min(low, origin), Math.max(high, origin)]
  if (high - low < 1e-12) {
    const room = Math.abs(high) * 0.5 || 1
    ;[low, high] = [low >= 0 ? Math.max(0, low - room) : low - room, high + room]
  }
  const [first, second] = ticks([low, high], 3)
  const step = second === undefined ? high - low : second - first
  return [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step]
}

/** `M x y L x y …` through the finite points; a gap where a value is missing. */
export function linePath(points: [number, number][]): string {
  let path = ''
  let pen = false
  for (const [x, y] of points) {
    if (!Number.isFinite(y)) {
      pen = false
      continue
    }
    path += `${pen ? 'L' : 'M'}${round(x)} ${round(y)}`
    pen = true
  }
  return path
}

/** The area between two lines that share their x. */
export function bandPath(points: { x: number; low: number; high: number }[]): string {
  const finite = points.filter(({ low, high }) => Number.isFinite(low) && Number.isFinite(high))
  if (finite.length < 2) return ''
  const there = finite.map(({ x, high }) => `${round(x)} ${round(high)}`)
  const back = finite.map(({ x, low }) => `${round(x)} ${round(low)}`).reverse()
  return `M${there.join('L')}L${back.join('L')}Z`
}

/** Index of the point whose x lies nearest; −1 where there is none. */
export function nearest(xs: number[], x: number): number {
  let best = -1
  for (let i = 0; i < xs.length; i++) if (best < 0 || Math.abs(xs[i] - x) < Math.abs(xs[best] - x)) best = i
  return best
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}
