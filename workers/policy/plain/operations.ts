// The few operations of a decoder that tfjs does not have, each as ordinary tfjs ops. Where a frozen factor makes the
// tape's own gradient wasteful, the gradient is written out; the formula stands above it.

import { type Tensor, type Tensor2D, tf } from '../../gpu/tfjs.ts'

/** x [N, in] · W [in, out]; `transposed` is W [out, in], kept so that the gradient needs no transposing product. */
export function frozenProduct(x: Tensor2D, weight: Tensor2D, transposed: Tensor2D): Tensor2D {
  const op = tf.customGrad((input) => ({
    value: tf.matMul(input as Tensor2D, weight),
    gradFunc: (dy: Tensor) => tf.matMul(dy as Tensor2D, transposed), // dx = dy · Wᵀ
  }))
  return op(x) as Tensor2D
}

/** y = x · w / √(mean(x²) + ε) over the last axis of x [N, D]; Zhang and Sennrich 2019. */
export function rmsNorm(x: Tensor2D, weight: Tensor, epsilon: number): Tensor2D {
  return tf.mul(tf.mul(x, tf.rsqrt(tf.add(tf.mean(tf.square(x), -1, true), epsilon))), weight)
}

/** The same with a frozen weight. With s = 1/√(mean(x²) + ε) and g = dy·w: dx = s·(g − x·s²·mean(g·x)). */
export function frozenRmsNorm(x: Tensor2D, weight: Tensor, epsilon: number): Tensor2D {
  const op = tf.customGrad((input, save) => {
    const value = input as Tensor
    const s = tf.rsqrt(tf.add(tf.mean(tf.square(value), -1, true), epsilon))
    ;(save as (tensors: Tensor[]) => void)([value, s])
    return {
      value: tf.mul(tf.mul(value, s), weight),
      gradFunc: (dy: Tensor, saved: Tensor[]) => {
        const [v, scale] = saved
        const g = tf.mul(dy, weight)
        const along = tf.mul(tf.mean(tf.mul(g, v), -1, true), tf.square(scale))
        return tf.mul(scale, tf.sub(g, tf.mul(v, along)))
      },
    }
  })
  return op(x) as Tensor2D
}

/** One row of V per id, 1 at the id, in f32; cast, since tfjs's wasm backend writes integer bits whatever the dtype asked for. */
export function oneHotRows(ids: Int32Array, V: number): Tensor2D {
  return tf.cast(tf.oneHot(tf.tensor1d(ids, 'int32'), V), 'float32') as Tensor2D
}

/** a + b of one shape. tfjs's own addition keeps both summands for its gradient, which needs neither. */
export function plus<T extends Tensor>(a: T, b: T): T {
  const op = tf.customGrad((x, y) => ({
    value: tf.add(x as Tensor, y as Tensor),
    gradFunc: (dy: Tensor) => [dy, dy],
  }))
  return op(a, b) as T
}

/** p = softmax(scores + mask) over the last axis; ds = p·(dp − Σ p·dp). Keeps p alone. */
export function maskedSoftmax(scores: Tensor, mask: Tensor): Tensor {
  const op = tf.customGrad((input, save) => {
    const p = tf.softmax(tf.add(input as Tensor, mask))
    ;(save as (tensors: Tensor[]) => void)([p])
    return {
      value: p,
      gradFunc: (dy: Tensor, saved: Tensor[]) => {
        const weighted = tf.mul(dy, saved[0])
        return tf.sub(weighted, tf.mul(tf.sum(weighted, -1, true), saved[0]))
      },
    }
  })
  return op(scores)
}

/** silu(gate) · up, Shazeer 2020. */
export function swiglu(gate: Tensor2D, up: Tensor2D): Tensor2D {
  return tf.mul(tf.mul(gate, tf.sigmoid(gate)), up)
}

/** The matrix R [d, d] with x·R = (−x₂, x₁) for the halves x = (x₁, x₂): Hugging Face's `rotate_half`. */
export function halfTurn(d: number): Tensor2D {
  const half = d / 2
  const matrix = new Float32Array(d * d)
  for (let i = 0; i < half; i++) {
    matrix[(i + half) * d + i] = -1
    matrix[i * d + i + half] = 1
  }
  return tf.tensor2d(matrix, [d, d])
}

/** Rotary positions, Su et al. 2021: x·cos + halfTurn(x)·sin, tables broadcast against x [.., d]. */
export function rotate(x: Tensor, cos: Tensor, sin: Tensor, turn: Tensor2D): Tensor {
  const d = turn.shape[0]
  const turned = tf.reshape(tf.matMul(tf.reshape(x, [-1, d]), turn), x.shape)
  return plus(tf.mul(x, cos), tf.mul(turned, sin))
}

// A type, not an interface: tfjs's containers want an index signature.
export type HeadOutput = {
  /** log softmax(h·Eᵀ / T)[target], [N]; its gradient reaches h, and E when it is a leaf. */
  logp: Tensor
  /** Entropy of the same distribution, [N]; no gradient. Kept: the caller disposes it. */
  entropy: Tensor
}

/**
 * Log-probability of one target per row. The forward pass already works out the gradient for a slope of one,
 * (E[target] − Σ p·E) / T, so that backward only scales it.
 * @param h [N, D] @param head E [V, D] @param headTransposed Eᵀ [D, V] @param targets one-hot [N, V] @param inverseTemperature [N, 1]
 */
export function targetLogprob(
  h: Tensor2D,
  head: Tensor2D,
  headTransposed: Tensor2D | null,
  targets: Tensor2D,
  inverseTemperature: Tensor2D,
): HeadOutput {
  let entropy: Tensor | null = null
  const forward = (hidden: Tensor2D, matrix: Tensor2D) => {
    const product = headTransposed ? tf.matMul(hidden, headTransposed) : tf.matMul(hidden, matrix, false, true)
    const logits = tf.mul(product, inverseTemperature)
    const shifted = tf.sub(logits, tf.max(logits, -1, true))
    const weights = tf.exp(shifted)
    const sum = tf.sum(weights, -1, true)
    const logSum = tf.squeeze(tf.log(sum), [-1])
    const p = tf.div(weights, sum) as Tensor2D
    entropy = tf.keep(tf.sub(logSum, tf.sum(tf.mul(p, shifted), -1)))
    const logp = tf.sub(tf.sum(tf.mul(targets, shifted), -1), logSum)
    const unit = tf.mul(tf.sub(targets, p), inverseTemperature) as Tensor2D // ∂logp/∂(h·Eᵀ), [N, V]
    return { logp, unit }
  }
  const op = headTransposed
    ? tf.customGrad((hidden, save) => {
        const { logp, unit } = forward(hidden as Tensor2D, head)
        ;(save as (tensors: Tensor[]) => void)([tf.matMul(unit, head)])
        return { value: logp, gradFunc: (dy: Tensor, saved: Tensor[]) => tf.mul(tf.expandDims(dy, -1), saved[0]) }
      })
    : tf.customGrad((hidden, matrix, save) => {
        const { logp, unit } = forward(hidden as Tensor2D, matrix as Tensor2D)
        ;(save as (tensors: Tensor[]) => void)([hidden as Tensor, matrix as Tensor, unit])
        return {
          value: logp,
          gradFunc: (dy: Tensor, saved: Tensor[]) => {
            const [h0, e0, u0] = saved as Tensor2D[]
            const slope = tf.mul(tf.expandDims(dy, -1), u0) as Tensor2D
            return [tf.matMul(slope, e0), tf.matMul(slope, h0, true, false)] // dh = δ·E, dE = δᵀ·h
          },
        }
      })
  const logp = headTransposed ? op(h) : op(h, head)
  return { logp, entropy: entropy! }
}
