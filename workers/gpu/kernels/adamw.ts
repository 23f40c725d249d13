// One step of the optimizer over the flat vector: policy/plain/optimizer.ts in one dispatch, after `squareSum`.

import type { Kernel } from '../kernel.ts'
import source from './adamw.wgsl?raw'
import sumText from './sumOfThreads.wgsl?raw'

/** What changes from step to step; nothing of it is in the kernel's text. */
export interface AdamwStep {
  type: 'adamw' | 'sgd'
  learningRate: number
  beta1: number
  beta2: number
  epsilon: number
  weightDecay: number
  /** Null, infinity or 0: no clipping. */
  maxGradientNorm: number | null
}

/** f32 words of the step's uniform buffer. */
export const STEP_WORDS = 12

/**
 * Bound in this order: uniform step (`packStep`), parts (of `squareSum` over the gradient), gradient, flat, first moments,
 * second moments, all [P] with P a multiple of 4, report f32 [4] = (norm before clipping, clip, 0, 0).
 *
 * Clips as torch's clip_grad_norm_: min(1, max / (norm + 1e-6)). AdamW (Loshchilov and Hutter 2019) with corrected moments
 * and decoupled decay, or SGD, which leaves the moments alone. The gradient is cleared. Where the norm is not finite it is
 * reported as NaN or infinity, and everything else, the gradient too, stays as it is. Relative to float64: 2e-6.
 */
export function adamw(): Kernel {
  return {
    name: 'adamw',
    code: `${sumText}\n${source}`,
    bindings: ['uniform', 'read', 'write', 'write', 'write', 'write', 'write'],
  }
}

/** Any number of workgroups is right; this many keep a large GPU busy. */
export function adamwWorkgroups(P: number): [number] {
  return [Math.max(1, Math.min(1024, Math.ceil(P / 4 / 256)))]
}

/** @param steps number of this step, from 1 */
export function packStep(step: AdamwStep, steps: number): Float32Array<ArrayBuffer> {
  const { learningRate, beta1, beta2, maxGradientNorm } = step
  const words = Float32Array.of(
    0,
    learningRate,
    1 - learningRate * step.weightDecay,
    step.epsilon,
    beta1,
    1 - beta1,
    beta2,
    1 - beta2,
    1 - beta1 ** steps,
    1 - beta2 ** steps,
    maxGradientNorm === null || !Number.isFinite(maxGradientNorm) ? 0 : Math.max(0, maxGradientNorm),
    0,
  )
  new Uint32Array(words.buffer)[0] = step.type === 'sgd' ? 1 : 0
  return words
}

export interface Moments {
  flat: Float64Array
  first: Float64Array
  second: Float64Array
}

/** The plain reference; `norm` is the gradient's. */
export function adamwReference(
  before: { flat: ArrayLike<number>; first: ArrayLike<number>; second: ArrayLike<number> },
  gradient: ArrayLike<number>,
  norm: number,
  step: AdamwStep,
  steps: number,
): Moments {
  const { type, learningRate, beta1, beta2, epsilon, weightDecay, maxGradientNorm } = step
  const clip = maxGradientNorm === null ? 1 : Math.min(1, maxGradientNorm / (norm + 1e-6))
  const [flat, first, second] = [before.flat, before.first, before.second].map((values) => Float64Array.from(values))
  for (let i = 0; i < flat.length; i++) {
    const g = gradient[i] * clip
    const kept = flat[i] * (1 - learningRate * weightDecay)
    if (type === 'sgd') {
      flat[i] = kept - learningRate * g
      continue
    }
    first[i] = beta1 * first[i] + (1 - beta1) * g
    second[i] = beta2 * second[i] + (1 - beta2) * g * g
    const mHat = first[i] / (1 - beta1 ** steps)
    const vHat = second[i] / (1 - beta2 ** steps)
    flat[i] = kept - (learningRate * mHat) / (Math.sqrt(vHat) + epsilon)
  }
  return { flat, first, second }
}
