// The only file that touches tfjs's private parts (4.22.0, pinned): the tape, the buffer pool and the flags. Everything
// else imports `tf` from here and uses its public interface.

import './nodeRequire.ts'
import * as tf from '@tensorflow/tfjs-core'
import '@tensorflow/tfjs-core/dist/register_all_gradients'

export type { Tensor, Tensor1D, Tensor2D, Tensor3D, Tensor4D } from '@tensorflow/tfjs-core'

// Without it tfjs advertises its Node package on the console.
tf.env().set('PROD', true)

export { tf }

interface TapeNode {
  kernelName: string
  inputs: Record<string, tf.Tensor>
  outputs: tf.Tensor[]
  saved?: tf.Tensor[]
  gradient?: (dys: (tf.Tensor | null)[]) => Record<string, () => tf.Tensor>
}

interface PrivateEngine {
  state: { activeTape: TapeNode[] | null; gradientDepth: number }
  startTape(): void
  endTape(): void
}

function engine(): PrivateEngine {
  return tf.engine() as unknown as PrivateEngine
}

/** What was recorded between inputs and an output, with the tensors that its gradients need. */
export interface Tape {
  nodes: TapeNode[]
}

/**
 * Runs `f` under a tape and keeps the tape, so that the gradient can be asked for later: `tf.grads` would run forward and
 * backward in one breath. The tape owns its tensors until `backpropagate` or `disposeTape`; `f`'s result is the caller's.
 */
export function record<T extends tf.TensorContainer>(f: () => T): { result: T; tape: Tape } {
  const { state } = engine()
  if (state.gradientDepth !== 0) throw new Error('internal: a tape is already being recorded')
  engine().startTape()
  try {
    const result = tf.tidy(f)
    return { result, tape: { nodes: state.activeTape ?? [] } }
  } catch (error) {
    disposeTape({ nodes: state.activeTape ?? [] })
    throw error
  } finally {
    engine().endTape()
    state.activeTape = null
  }
}

/**
 * ∂(Σ seed·output)/∂leaf for every leaf, walking the tape backwards. Each gradient and each saved tensor is freed as soon
 * as the walk has passed it: tfjs's own walk keeps all of them to the end, several times the memory.
 */
export function backpropagate(
  tape: Tape,
  output: tf.Tensor,
  seed: tf.Tensor,
  leaves: tf.Tensor[],
): (tf.Tensor | null)[] {
  const fromLeaves = new Set(leaves.map((leaf) => leaf.id))
  const reached = tape.nodes.map((node) => {
    const depends = Object.values(node.inputs).some((input) => fromLeaves.has(input.id))
    if (depends) for (const out of node.outputs) fromLeaves.add(out.id)
    return depends
  })
  const leafIds = new Set(leaves.map((leaf) => leaf.id))
  const gradients = new Map<number, tf.Tensor>([[output.id, tf.keep(tf.clone(seed))]])
  for (let index = tape.nodes.length - 1; index >= 0; index--) {
    const node = tape.nodes[index]
    const dys = node.outputs.map((out) => gradients.get(out.id) ?? null)
    if (reached[index] && dys.some((dy) => dy !== null)) {
      if (!node.gradient)
        throw new Error(`tfjs has no gradient for ${node.kernelName}, which lies between the adapters and the loss.`)
      const parts = tf.tidy(() => {
        const of = node.gradient!(dys)
        const result: Record<string, tf.Tensor> = {}
        for (const [name, input] of Object.entries(node.inputs)) {
          if (!fromLeaves.has(input.id)) continue
          const before = gradients.get(input.id)
          const gradient = of[name]()
          result[name] = tf.keep(before ? tf.add(before, gradient) : tf.clone(gradient))
          before?.dispose()
          gradients.set(input.id, result[name])
        }
        return []
      })
      tf.dispose(parts)
    }
    for (const out of node.outputs) {
      if (leafIds.has(out.id)) continue
      gradients.get(out.id)?.dispose()
      gradients.delete(out.id)
    }
    tf.dispose(node.saved ?? [])
  }
  const result = leaves.map((leaf) => gradients.get(leaf.id) ?? null)
  for (const [id, gradient] of gradients) if (!leafIds.has(id)) gradient.dispose()
  return result
}

export function disposeTape(tape: Tape): void {
  for (const node of tape.nodes) tf.dispose(node.saved ?? [])
  tape.nodes = []
}

// ── The buffer pool ──────────────────────────────────────────────────────────────────────────────────────────────

interface PrivateWebGPUBackend {
  ensureCommandEncoderReady(): void
  endComputePassEncoder(): void
  submitQueue(): void
  bufferManager: {
    numBytesAllocated: number
    numFreeBuffers: number
    freeBuffers: Map<string, GPUBuffer[]>
    getNumUsedBuffers(): number
    getNumFreeBuffers(): number
  }
}

/** Bytes that tfjs holds on the GPU, pooled buffers included; tensor bytes on other backends. */
export function tfjsMemory(): { bytes: number; tensors: number; buffers: number } {
  const { numBytes, numTensors, numDataBuffers } = tf.memory()
  const backend = tf.backend() as unknown as Partial<PrivateWebGPUBackend>
  if (!backend.bufferManager) return { bytes: numBytes, tensors: numTensors, buffers: numDataBuffers }
  const pool = backend.bufferManager
  return {
    bytes: pool.numBytesAllocated,
    tensors: numTensors,
    buffers: pool.getNumUsedBuffers() + pool.getNumFreeBuffers(),
  }
}

/** Frees pooled buffers that no tensor uses; tfjs itself never gives one back. */
export function trimPool(): void {
  const backend = tf.backend() as unknown as Partial<PrivateWebGPUBackend>
  const pool = backend.bufferManager
  if (!pool) return
  // What the open batch of commands still uses comes back to the pool when it is submitted.
  backend.ensureCommandEncoderReady?.()
  backend.endComputePassEncoder?.()
  backend.submitQueue?.()
  // The lists stay in the map: tfjs forgets to release buffers when the map is empty.
  for (const buffers of pool.freeBuffers.values()) {
    for (const buffer of buffers) {
      pool.numBytesAllocated -= buffer.size
      buffer.destroy()
    }
    pool.numFreeBuffers -= buffers.length
    buffers.length = 0
  }
}
