// One step of the optimizer over the flat vector, in tfjs ops. Nothing here knows which number belongs to which matrix,
// except Muon, which is given the layout.

import { type Tensor, tf } from '../../gpu/tfjs.ts'
import type { OptimizerStep } from '../policy.ts'

export interface OptimizerState {
  flat: Tensor
  first: Tensor
  second: Tensor
  steps: number
}

/**
 * AdamW, Loshchilov and Hutter 2019, as torch: w ← w·(1 − lr·λ) − lr·m̂ / (√v̂ + ε), m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ).
 * SGD is the same with the gradient in place of the quotient. `clip` multiplies the gradient first.
 */
export function applyOptimizer(
  state: OptimizerState,
  gradient: Tensor,
  clip: number,
  step: OptimizerStep,
): OptimizerState {
  const steps = state.steps + 1
  const [flat, first, second] = tf.tidy(() => {
    const g = tf.mul(gradient, clip)
    const decayed = tf.mul(state.flat, 1 - step.learningRate * step.weightDecay)
    if (step.type === 'sgd')
      return [tf.sub(decayed, tf.mul(g, step.learningRate)), tf.clone(state.first), tf.clone(state.second)]
    const m = tf.add(tf.mul(state.first, step.beta1), tf.mul(g, 1 - step.beta1))
    const v = tf.add(tf.mul(state.second, step.beta2), tf.mul(tf.square(g), 1 - step.beta2))
    const mHat = tf.div(m, 1 - step.beta1 ** steps)
    const vHat = tf.div(v, 1 - step.beta2 ** steps)
    const quotient = tf.div(mHat, tf.add(tf.sqrt(vHat), step.epsilon))
    return [tf.sub(decayed, tf.mul(quotient, step.learningRate)), m, v]
  })
  tf.dispose([state.flat, state.first, state.second])
  return { flat: tf.keep(flat), first: tf.keep(first), second: tf.keep(second), steps }
}

/** ‖g‖₂. */
export async function gradientNorm(gradient: Tensor): Promise<number> {
  const norm = tf.tidy(() => tf.sqrt(tf.sum(tf.square(gradient))))
  const value = (await norm.data())[0]
  norm.dispose()
  return value
}
