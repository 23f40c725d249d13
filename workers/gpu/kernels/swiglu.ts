// h = silu(gate)·up (Shazeer 2020) for gate and up side by side, as one product makes them: column 2j is gate j, 2j+1 up j.

import type { Kernel } from '../kernel.ts'
import { flatWorkgroups } from './sumParts.ts'
import source from './swiglu.wgsl?raw'
import backwardSource from './swigluBackward.wgsl?raw'

/** Bound in this order: gateUp [M, 2F], h [M, F]; F a multiple of 4. Relative to float64: 2e-6. */
export function swiglu(): Kernel {
  return { name: 'swiglu', code: source, bindings: ['read', 'write'] }
}

/**
 * d up = dh·silu(gate), d gate = dh·up·σ·(1 + gate·(1 − σ)) with σ = sigmoid(gate).
 * Bound in this order: dh [M, F], gateUp [M, 2F], dGateUp [M, 2F]. Relative to float64: 2e-6.
 */
export function swigluBackward(): Kernel {
  return { name: 'swiglu.backward', code: backwardSource, bindings: ['read', 'read', 'write'] }
}

/** Of both; `size` is M·F. */
export function swigluWorkgroups(size: number): [number, number] {
  return flatWorkgroups(size / 4, 256)
}

/** The plain reference of one number. */
export function swigluReference(gate: number, up: number): number {
  return (gate / (1 + Math.exp(-gate))) * up
}

/** The plain reference of one number: [d gate, d up]. */
export function swigluBackwardReference(dh: number, gate: number, up: number): [number, number] {
  const sigmoid = 1 / (1 + Math.exp(-gate))
  return [dh * up * (sigmoid + gate * sigmoid * (1 - sigmoid)), dh * gate * sigmoid]
}
