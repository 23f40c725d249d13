// RMSNorm (Zhang and Sennrich 2019) over rows, and its gradient to the input: y = x·w·s with s = 1/√(mean(x²) + ε).

import { type Constants, type Kernel, specialise } from '../kernel.ts'
import source from './norm.wgsl?raw'
import backwardSource from './normBackward.wgsl?raw'
import rowSumText from './normRowSum.wgsl?raw'
import { ENABLE_SUBGROUPS, shuffled } from './shuffle.ts'
import { flatWorkgroups } from './sumParts.ts'

export interface NormSpec {
  /** Columns that count for the mean. */
  columns: number
  /** Row stride of every matrix; a multiple of 4. Columns beyond `columns` hold zeros. */
  width: number
  epsilon: number
  /** Threads that sum a row by subgroup shuffles, another order of the sum; 0, the default: none. */
  lanes?: number
}

function withRowSum(text: string, constants: Constants, lanes: number): string {
  if (lanes === 0) return specialise(`${rowSumText}\n${text}`, constants)
  const add = (a: string, b: string) => `${a} + ${b}`
  const sum = shuffled({ name: 'rowSum', type: 'f32', threads: 128, team: 32, lanes, combine: add })
  return specialise(`${sum}\n${text}`, constants, [ENABLE_SUBGROUPS])
}

/**
 * Bound in this order: x [M, width], weight [width], y [M, width], s [M]. Rows are those of the y that is bound.
 * Relative to float64: 1e-6.
 */
export function norm({ columns, width, epsilon, lanes = 0 }: NormSpec): Kernel {
  const constants = { WIDTH_QUADS: width / 4, COLUMNS: { float: columns }, EPSILON: { float: epsilon } }
  return { name: 'norm', code: withRowSum(source, constants, lanes), bindings: ['read', 'read', 'write', 'write'] }
}

/**
 * With g = dy·w: dx = s·(g − x·s²·mean(g·x)). `add` adds it to what dx holds, the gradient of the residual stream.
 * Bound in this order: dy [M, width], x [M, width], weight [width], s [M] as `norm` wrote it, dx [M, width]. Rows are
 * those of the dx that is bound. Relative to float64: 1e-5.
 */
export function normBackward({ columns, width, lanes = 0 }: Omit<NormSpec, 'epsilon'>, add: boolean): Kernel {
  const constants = { WIDTH_QUADS: width / 4, COLUMNS: { float: columns }, ADD: add }
  return {
    name: 'norm.backward',
    code: withRowSum(backwardSource, constants, lanes),
    bindings: ['read', 'read', 'read', 'read', 'write'],
  }
}

/** Of both. */
export function normWorkgroups(M: number): [number, number] {
  return flatWorkgroups(M, 4)
}

/** The plain reference of one row of `columns` numbers. */
export function normReference(
  x: ArrayLike<number>,
  weight: ArrayLike<number>,
  epsilon: number,
): { y: Float64Array; s: number } {
  const values = Float64Array.from(x)
  const s = 1 / Math.sqrt(values.reduce((sum, v) => sum + v * v, 0) / values.length + epsilon)
  return { y: values.map((v, i) => v * weight[i] * s), s }
}

/** The plain reference of one row: ∂(dy·y)/∂x, term by term. */
export function normBackwardReference(
  dy: ArrayLike<number>,
  x: ArrayLike<number>,
  weight: ArrayLike<number>,
  epsilon: number,
): Float64Array {
  const { s } = normReference(x, weight, epsilon)
  const columns = x.length
  return Float64Array.from({ length: columns }, (_, j) => {
    let sum = 0
    for (let i = 0; i < columns; i++) {
      // ∂y_i/∂x_j = w_i·(s·[i = j] − x_i·s³·x_j / D)
      sum += dy[i] * weight[i] * ((i === j ? s : 0) - (x[i] * s ** 3 * x[j]) / columns)
    }
    return sum
  })
}
