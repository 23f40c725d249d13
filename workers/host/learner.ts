// From a config to a policy with everything around it: model, device, adapters, script. The realm it runs in says where
// model files lie and how a device is opened.

import { baseDtypeOf, type Engine, engineOf, misfit, tokenBudget } from '../../configs/memory.ts'
import type { RunConfig } from '../../configs/schema.ts'
import type { Backend, Device } from '../gpu/device.ts'
import type { VariantChoices } from '../gpu/variants.ts'
import { peftFiles } from '../policy/adapter.ts'
import type { Card } from '../policy/card.ts'
import { createCompiledPolicy } from '../policy/compiled/index.ts'
import { BATCHED, type Decoder } from '../policy/compiled/whole.ts'
import { describeModel, type Model, openModel } from '../policy/load.ts'
import { createPlainPolicy } from '../policy/plain/index.ts'
import type { Policy } from '../policy/policy.ts'
import { type Read, writeSafetensors } from '../policy/weights.ts'
import type { ExportedFile } from '../protocol.ts'
import type { Script } from '../step/run.ts'
import type { RunLibrary } from '../storage/store.ts'
import type { FetchProgress, Learner } from '../trainer.ts'

export interface ModelRequest {
  /** The address of another hub than the usual one. */
  hub?: string | null
  onFetch?: (progress: FetchProgress) => void
  /** What its user should know of how the files are had. */
  onNote?: (sentence: string) => void
}

/** What a thread offers: files, a disk, something to compute on. */
export interface Realm {
  library(): Promise<RunLibrary>
  /** The files of a model, by the name that a config gives it. Throws a sentence when there is no such model. */
  modelFiles(name: string, request?: ModelRequest): Promise<Read>
  openDevice(backend: Backend | 'auto'): Promise<Device>
}

export async function openLearner(
  realm: Realm,
  config: RunConfig,
  choices: Record<string, unknown> | null,
  onFetch?: (progress: FetchProgress) => void,
): Promise<Learner> {
  const notes: string[] = []
  const read = await realm.modelFiles(config.model, {
    hub: config.browser.hub,
    onFetch,
    onNote: (sentence) => notes.push(sentence),
  })
  const device = await realm.openDevice(config.browser.backend)
  try {
    const model = await openModel(read, config.model, { onCard: (card) => refuseWhatCannotFit(config, card, device) })
    const chosen = (choices as unknown as Choices | null) ?? choose(config, model.card, device)
    const { policy, variants, decoder, notes: ownNotes } = await createPolicy(config, model, device, chosen)
    return {
      policy,
      script: scriptOf(model, config.sampling.enable_thinking),
      model: describeModel(model, policy),
      device: {
        backend: device.backend,
        adapter: device.adapter,
        software: device.software,
        features: device.features,
        selfTest: device.selfTest,
        memoryLimitBytes: device.memoryLimitBytes,
      },
      choices: { ...chosen, variants, decoder },
      notes: [...notes, ...templateNotes(model, config), ...deviceNotes(device), ...ownNotes],
      lost: device.lost,
      export: () => exportPolicy(config, model, policy, read),
      dispose() {
        policy.dispose()
        device.dispose()
      },
    }
  } catch (error) {
    device.dispose()
    throw error
  }
}

/** What a device decides at a run's first start, and every later start keeps. */
interface Choices {
  engine: Engine
  baseDtype: 'f32' | 'f16' | 'int8' | 'int4'
  recompute: 'none' | 'elementwise' | 'layer'
  /** null: the policy's own. */
  slots: number | null
  /** Of the compiled engine. */
  tokensPerPass: number
  /** Kernels of the compiled engine that run otherwise than plain; null before they are tried. */
  variants: VariantChoices | null
  /** How the compiled engine samples; null before both ways are tried. */
  decoder: Decoder | null
}

interface Made {
  policy: Policy
  variants: VariantChoices
  decoder: Decoder
  notes: string[]
}

function choose(config: RunConfig, card: Card, device: Device): Choices {
  const { recompute, slots } = config.browser
  const engine = engineOf(config, device)
  return {
    engine,
    baseDtype: baseDtypeOf(config, card, engine),
    recompute: recompute === 'auto' ? 'elementwise' : recompute,
    slots,
    tokensPerPass: tokenBudget(config, card),
    variants: null,
    decoder: null,
  }
}

async function createPolicy(config: RunConfig, model: Model, device: Device, chosen: Choices): Promise<Made> {
  const { r, alpha, target_modules } = config.lora
  const common = {
    model,
    device,
    trainable: config.lora.enabled ? ('adapters' as const) : ('all' as const),
    lora: { r, alpha, targetModules: target_modules },
    seed: config.seed,
    slots: chosen.slots ?? undefined,
  }
  // A save from before there were two engines names none.
  if (chosen.engine !== 'compiled') {
    const policy = await createPlainPolicy({ ...common, rowsPerPass: config.micro_batch_size })
    return { policy, variants: {}, decoder: BATCHED, notes: [] }
  }
  const policy = await createCompiledPolicy({
    ...common,
    baseFormat: chosen.baseDtype,
    recompute: chosen.recompute,
    tokensPerPass: chosen.tokensPerPass,
    // A save from before there were variants names none: all of them are plain.
    variants: chosen.variants === null ? 'trial' : (chosen.variants ?? 'plain'),
    decoder: chosen.decoder === null ? 'trial' : BATCHED,
  })
  const notes = [...policy.variants.notes, ...keepDecoder(policy, chosen.decoder ?? null)]
  return { policy, variants: policy.variants.choices, decoder: policy.decoder, notes }
}

/** The decoder of an earlier start, maybe on another device. A save from before there were two names none. */
function keepDecoder(policy: { decoder: Decoder }, decoder: Decoder | null): string[] {
  if (!decoder) return []
  try {
    policy.decoder = decoder
    return []
  } catch (error) {
    return [`${error instanceof Error ? error.message : error} Sampled tokens may differ from here on.`]
  }
}

/** Before a weight is fetched. @throws a sentence with the change that would make the run fit */
function refuseWhatCannotFit(
  config: RunConfig,
  card: Card,
  { backend, software, gpu, memoryLimitBytes }: Device,
): void {
  const own = config.browser.memory_gb === null ? memoryLimitBytes : config.browser.memory_gb * 1e9
  const totalBytes = backend === 'wasm' ? Math.min(own ?? WASM_BYTES, WASM_BYTES) : own
  const largestBufferBytes = gpu ? Math.min(gpu.limits.maxBufferSize, gpu.limits.maxStorageBufferBindingSize) : null
  const found = misfit(config, card, { totalBytes, largestBufferBytes }, engineOf(config, { backend, software }))
  if (found) throw new Error(found.sentence)
}

/** All that 32-bit addresses of WebAssembly reach. */
const WASM_BYTES = 2 ** 32

export function scriptOf({ template, tokenizer, stopTokens, card }: Model, thinking: boolean | null = null): Script {
  return {
    renderPrompt: (messages, tools) => template.renderPrompt(messages, { tools, thinking }),
    renderSuffix: (messages, closed) => template.renderSuffix(messages, closed, { thinking }),
    decode: (ids) => tokenizer.decode(ids),
    tokens: (ids) => tokenizer.tokens(ids),
    stopTokens,
    maxLength: card.maxLength,
  }
}

function templateNotes({ name, template }: Model, config: RunConfig): string[] {
  const notes: string[] = []
  if (template.rewritesTurns) {
    notes.push(
      `The chat template of ${name} changes earlier turns when a later one comes (thinking is left out). Here every turn stays as it was sampled, since those are the tokens that are learned from.`,
    )
  }
  if (config.sampling.enable_thinking !== null && !template.knowsThinking)
    notes.push(`sampling.enable_thinking does nothing: the chat template of ${name} has no such switch.`)
  return notes
}

function deviceNotes({ backend, adapter, software }: Device): string[] {
  if (backend === 'webgpu' && !software) return []
  if (backend === 'webgpu') return [`WebGPU is computed by the processor here (${adapter}): it works, and it is slow.`]
  return [`No GPU computes here, but ${adapter} (${backend}): it works, and it is slower.`]
}

async function exportPolicy(config: RunConfig, model: Model, policy: Policy, read: Read): Promise<ExportedFile[]> {
  const { r, alpha, target_modules } = config.lora
  const tensors = await policy.tensors()
  if (policy.trainable === 'adapters')
    return peftFiles(tensors, { r, alpha, targetModules: target_modules }, model.name)
  // A whole model again, with the files that say how to read it.
  const files = [{ name: 'model.safetensors', bytes: writeSafetensors(tensors, 'F32') }]
  for (const name of [
    'config.json',
    'generation_config.json',
    'tokenizer.json',
    'tokenizer_config.json',
    'chat_template.jinja',
  ]) {
    const bytes = await read(name).catch(() => null)
    if (bytes) files.push({ name, bytes })
  }
  return files
}
