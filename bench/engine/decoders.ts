// The two ways of decoding side by side, and the second one in its tilings: tokens a second, and whether they are the same
// tokens. Weights are random, and the log-probabilities of whatever was sampled alike are compared.

import type { Device } from '../../workers/gpu/device.ts'
import type { WholeTiling } from '../../workers/gpu/kernels/decodeWhole.ts'
import { offeredBy } from '../../workers/gpu/variants.ts'
import { createCompiledPolicy } from '../../workers/policy/compiled/index.ts'
import type { Decoder } from '../../workers/policy/compiled/whole.ts'
import type { Completion } from '../../workers/policy/policy.ts'
import { decode, LORA, type Measured, median, SAMPLED, type Work, warm } from './measure.ts'
import { randomModel } from './shapes.ts'

const BATCHED: Decoder = { kind: 'batched' }

function tilings(device: GPUDevice): WholeTiling[] {
  const { lanes } = offeredBy(device)
  const team = Math.min(8, Math.max(1, lanes))
  const each = [1, 2, 4].flatMap((rows) =>
    [256, 512].flatMap((threads) => [false, true].map((pipelined) => ({ rows, threads, lanes: team, pipelined }))),
  )
  const large = [1, 2].map((rows) => ({ rows, threads: 1024, lanes: team, pipelined: false }))
  const alone = [1, 2].map((rows) => ({ rows, threads: 256, lanes: 1, pipelined: true }))
  return [...each, ...large, ...(team > 1 ? alone : [])]
}

export async function compareDecoders(device: Device, work: Work, tell: (line: Measured) => void): Promise<void> {
  const { model, format } = work
  const policy = await createCompiledPolicy({
    model: randomModel(model),
    device,
    trainable: 'adapters',
    lora: LORA,
    seed: 1,
    slots: Math.max(1, ...work.decode),
    baseFormat: format,
    variants: work.variants,
    tokensPerPass: 256,
  })
  const expected = new Map<number, Completion[]>()
  const measureOne = async (decoder: Decoder, name: string) => {
    try {
      policy.decoder = decoder
    } catch (error) {
      const what = `${name}: ${error instanceof Error ? error.message : String(error)}`
      tell({ policy: 'compiled', model, format, what, tokensPerSecond: 0, milliseconds: 0, gpuBytes: 0 })
      return
    }
    for (const B of work.decode) {
      await warm(() => decode(policy, model, B, 7))
      const times: number[] = []
      let done: Completion[] = []
      for (let repetition = 0; repetition < 5; repetition++) {
        const measured = await decode(policy, model, B, repetition)
        times.push(measured.time)
        done = measured.done
      }
      const known = expected.get(B)
      if (!known) expected.set(B, done)
      const milliseconds = median(times)
      tell({
        policy: 'compiled',
        model,
        format,
        what: `decode B=${B}, ${name}${known ? `, ${agreement(done, known)}` : ''}`,
        tokensPerSecond: (B * (SAMPLED - 1)) / (milliseconds / 1000),
        milliseconds,
        gpuBytes: policy.memory().gpuBytes,
      })
    }
  }
  try {
    if (work.decoder !== 'whole') await measureOne(BATCHED, 'batched')
    if (work.decoder === 'batched') return
    for (const tiling of tilings(device.gpu!)) {
      const { rows, threads, lanes, pipelined } = tiling
      const name = `whole: ${rows} a workgroup of ${threads}, teams of ${lanes}${pipelined ? ', asked ahead' : ''}`
      await measureOne({ kind: 'whole', ...tiling }, name)
    }
  } finally {
    policy.dispose()
  }
}

/** Of the first decoder's completions: how many are the same, and the worst difference of log π up to where they part. */
function agreement(done: Completion[], known: Completion[]): string {
  let same = 0
  let worst = 0
  for (const [i, { ids, logp }] of done.entries()) {
    const parted = ids.findIndex((id, t) => id !== known[i].ids[t])
    const until = parted < 0 ? ids.length : parted
    if (parted < 0) same++
    for (let t = 0; t < until; t++) worst = Math.max(worst, Math.abs(logp[t] - known[i].logp[t]))
  }
  return `${same} of ${done.length} the same, log π off by ${worst.toExponential(1)}`
}
