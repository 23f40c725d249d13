// Our kernels and the policy on WebGPU in a worker, against plain arithmetic and against the same policy on wasm.

import { openDevice } from '../../workers/gpu/device.ts'
import { tf } from '../../workers/gpu/tfjs.ts'
import { createCompiledPolicy } from '../../workers/policy/compiled/index.ts'
import { createPlainPolicy } from '../../workers/policy/plain/index.ts'
import { noiseKey } from '../../workers/random.ts'
import { flatTargets, LORA, perturb, prompt, randomRows, samplingOptions } from '../policy/policies.ts'
import { randomModel } from '../policy/randomModel.ts'

interface Check {
  name: string
  worst: number
}

function values(length: number, phase: number): Float32Array {
  return Float32Array.from({ length }, (_, i) => Math.sin(i * 12.9898 + phase))
}

/** Largest difference from float64, for products and row reductions of odd shapes. */
export async function kernels(): Promise<Check[]> {
  const device = await openDevice({ backend: 'webgpu' })
  const checks: Check[] = []
  for (const [batch, M, K, N] of [
    [1, 5, 12, 8],
    [3, 1, 4, 4],
    [2, 7, 20, 36],
    [1, 64, 68, 264],
    [1, 9, 7, 5],
    [2, 13, 3, 4],
  ]) {
    for (const [transposeA, transposeB] of [
      [false, false],
      [false, true],
      [true, false],
      [true, true],
    ]) {
      const a = values(batch * M * K, 0)
      const b = values(batch * K * N, 1)
      const product = tf.tidy(() =>
        tf.matMul(
          tf.tensor(a, [batch, ...(transposeA ? [K, M] : [M, K])]),
          tf.tensor(b, [batch, ...(transposeB ? [N, K] : [K, N])]),
          transposeA,
          transposeB,
        ),
      )
      const got = await product.data()
      product.dispose()
      let worst = 0
      for (let z = 0; z < batch; z++) {
        for (let i = 0; i < M; i++) {
          for (let j = 0; j < N; j++) {
            let sum = 0
            for (let k = 0; k < K; k++) {
              sum +=
                a[z * M * K + (transposeA ? k * M + i : i * K + k)] *
                b[z * K * N + (transposeB ? j * K + k : k * N + j)]
            }
            worst = Math.max(worst, Math.abs(sum - got[(z * M + i) * N + j]))
          }
        }
      }
      checks.push({ name: `product ${[batch, M, K, N]} ${transposeA} ${transposeB}`, worst })
    }
  }
  for (const [rows, columns] of [
    [9, 5],
    [64, 96],
    [33, 264],
    [8, 1],
    [2, 7],
  ]) {
    const x = values(rows * columns, 2)
    const results = tf.tidy(() => {
      const tensor = tf.tensor2d(x, [rows, columns])
      return [tf.sum(tensor, -1), tf.mean(tensor, -1, true), tf.max(tensor, -1), tf.softmax(tensor)]
    })
    const [sum, mean, max, softmax] = await Promise.all(results.map((result) => result.data()))
    tf.dispose(results)
    const worst = [0, 0, 0, 0]
    for (let r = 0; r < rows; r++) {
      const row = [...x.subarray(r * columns, (r + 1) * columns)]
      const total = row.reduce((s, v) => s + v, 0)
      const weight = row.reduce((s, v) => s + Math.exp(v), 0)
      worst[0] = Math.max(worst[0], Math.abs(sum[r] - total))
      worst[1] = Math.max(worst[1], Math.abs(mean[r] - total / columns))
      worst[2] = Math.max(worst[2], Math.abs(max[r] - Math.max(...row)))
      for (const [c, v] of row.entries())
        worst[3] = Math.max(worst[3], Math.abs(softmax[r * columns + c] - Math.exp(v) / weight))
    }
    for (const [i, name] of ['sum', 'mean', 'max', 'softmax'].entries())
      checks.push({ name: `${name} ${[rows, columns]}`, worst: worst[i] })
  }
  device.dispose()
  return checks
}

/** What each policy that runs on a backend says and learns: plain numbers, to be compared with another's. */
export async function policyOn(backend: 'webgpu' | 'wasm', wasmFolder: string) {
  const device = await openDevice({ backend, wasmFolder: () => wasmFolder })
  const model = await randomModel()
  const results = []
  const common = { model, device, trainable: 'adapters' as const, lora: LORA, seed: 5 }
  const policies = [await createPlainPolicy(common)]
  if (device.gpu) policies.push(await createCompiledPolicy({ ...common, tokensPerPass: 512 }))
  for (const [index, policy] of policies.entries()) {
    const name = ['plain', 'compiled'][index]
    await perturb(policy)
    const sampler = policy.sampler(samplingOptions(model))
    const sampled = await sampler.complete(
      ['one', 'two words'].map((word, i) => ({
        sequence: i,
        ids: prompt(model, word),
        noise: noiseKey(1, 'train', i, 0),
        maxTokens: 10,
      })),
    )
    sampler.dispose()
    const rows = randomRows(3, model.card.vocabulary)
    const { logp, entropy, pass } = await policy.logprobs(rows, { adapter: 'live', keep: true })
    await policy.backward(
      pass!,
      Float32Array.from({ length: flatTargets(rows) }, (_, i) => Math.sin(i)),
    )
    const gradient = await policy.gradient()
    results.push({
      name,
      tokens: sampled.map(({ ids }) => [...ids]),
      logp: [...logp],
      entropy: [...entropy],
      gradient: [...gradient],
    })
    policy.dispose()
  }
  device.dispose()
  return results
}
