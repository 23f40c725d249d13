// Makes a bundled checkpoint from nothing, by supervised training on text that the environments generate. Saves every
// minute, goes on from the newest save, and writes a Hugging Face folder.

import { createReadStream, existsSync } from 'node:fs'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { parse } from 'smol-toml'
import { z } from 'zod'
import { runConfig } from '../configs/schema.ts'
import { openDemonstrations } from '../environments/index.ts'
import { BYTE_VOCABULARY, byteTokenizerConfig, byteTokenizerJson, qwen3Config } from '../models/byteLevel.ts'
import { createEnvironmentPort } from '../workers/environments.ts'
import { evaluate } from '../workers/evaluate.ts'
import type { Device } from '../workers/gpu/device.ts'
import { scriptOf } from '../workers/host/learner.ts'
import { type Model, openModel } from '../workers/policy/load.ts'
import { createPlainPolicy } from '../workers/policy/plain/index.ts'
import type { Policy } from '../workers/policy/policy.ts'
import { MissingFile, type Read, writeSafetensors } from '../workers/policy/weights.ts'
import { type SupervisedReport, sftStep, supervisedRow } from '../workers/sft.ts'
import type { Run } from '../workers/step/run.ts'

const recipeSchema = z.strictObject({
  name: z.string(),
  seed: z.int().min(0).default(0),
  architecture: z.strictObject({
    hidden_size: z.int(),
    num_hidden_layers: z.int(),
    num_attention_heads: z.int(),
    num_key_value_heads: z.int(),
    head_dim: z.int(),
    intermediate_size: z.int(),
    max_position_embeddings: z.int(),
    rope_theta: z.number().default(10000),
  }),
  data: z
    .array(
      z.strictObject({
        environment: z.string(),
        share: z.number().positive().default(1),
        args: z.record(z.string(), z.unknown()).default({}),
      }),
    )
    .min(1),
  training: z.strictObject({
    steps: z.int().min(1),
    rows: z.int().min(1),
    micro_batch_size: z.int().min(1),
    learning_rate: z.number().positive(),
    warmup_steps: z.int().min(0).default(100),
    beta1: z.number().default(0.9),
    beta2: z.number().default(0.95),
    weight_decay: z.number().default(0.01),
    max_grad_norm: z.number().default(1),
  }),
  evaluation: z.strictObject({
    environment: z.string(),
    args: z.record(z.string(), z.unknown()).default({}),
    examples: z.int().min(1).default(128),
    interval: z.int().min(1).default(100),
    max_tokens: z.int().min(1).default(64),
  }),
})

export type PretrainRecipe = z.output<typeof recipeSchema>

export interface PretrainOptions {
  recipe: string
  /** Where the model folder is written; beside the recipe unless given. */
  out?: string
  /** Stop after this many seconds, saved; the next call goes on. */
  seconds?: number
  openDevice: () => Promise<Device>
  write: (line: string) => void
}

const SAVE_EVERY_MS = 60_000

export async function pretrain(options: PretrainOptions): Promise<void> {
  const parsed = recipeSchema.safeParse(parse(await readFile(options.recipe, 'utf8')))
  if (!parsed.success) throw new Error(`Read ${options.recipe}: ${z.prettifyError(parsed.error)}`)
  const recipe = parsed.data
  const folder = resolve(options.out ?? dirname(options.recipe))
  await mkdir(folder, { recursive: true })
  const model = await blankModel(recipe)
  const device = await options.openDevice()
  const policy = await createPlainPolicy({
    model,
    device,
    trainable: 'all',
    fromScratch: true,
    seed: recipe.seed,
    rowsPerPass: 64,
  })

  const evaluation = await openEvaluation(recipe, model, policy)

  const checkpoint = join(folder, 'pretraining.bin')
  const curve = join(folder, 'training.jsonl')
  const before = existsSync(checkpoint) ? await restore(policy, checkpoint) : { step: 0, seconds: 0 }
  const lines = before.step > 0 ? (await readLines(curve)).filter(({ step }) => step <= before.step) : []
  options.write(
    `${recipe.name}: ${model.parameters} parameters on ${device.adapter} (${device.backend}), from step ${before.step} of ${recipe.training.steps}`,
  )

  const sources = await Promise.all(
    recipe.data.map(async (data) => ({
      share: data.share,
      text: await openDemonstrations(data.environment, data.args),
    })),
  )
  const started = performance.now()
  const elapsed = () => before.seconds + (performance.now() - started) / 1000
  let saved = performance.now()
  let step = before.step
  while (step < recipe.training.steps) {
    step++
    const report = await sftStep(
      policy,
      drawRows(recipe, model, sources, step),
      recipe.training.micro_batch_size,
      optimizerStep(recipe, step),
    )
    const line: CurveLine = { step, ...rounded(report), seconds: Math.round(elapsed() * 10) / 10 }
    if (step % recipe.evaluation.interval === 0 || step === recipe.training.steps)
      Object.assign(line, await heldOut(evaluation))
    lines.push(line)
    if (step % 10 === 0 || line.reward !== undefined) options.write(JSON.stringify({ ...line, ...policy.memory() }))
    const overTime = options.seconds !== undefined && (performance.now() - started) / 1000 > options.seconds
    if (performance.now() - saved > SAVE_EVERY_MS || overTime || step === recipe.training.steps) {
      await writeAtomically(checkpoint, await packState(policy, step, elapsed()))
      await writeAtomically(
        curve,
        new TextEncoder().encode(lines.map((entry) => `${JSON.stringify(entry)}\n`).join('')),
      )
      saved = performance.now()
    }
    if (overTime && step < recipe.training.steps) {
      options.write(`stopped at step ${step}, saved; run the same command to go on`)
      return
    }
  }
  const card = {
    seconds: Math.round(elapsed()),
    device: device.adapter,
    backend: device.backend,
    date: new Date().toISOString().slice(0, 10),
    last: lines.at(-1),
  }
  await writeModel(folder, recipe, policy, card)
  await rm(checkpoint, { force: true })
  options.write(`wrote ${folder}`)
}

interface CurveLine {
  step: number
  loss: number
  gradientNorm: number
  tokens: number
  seconds: number
  reward?: number
  exact?: number
}

// Warm-up, then a cosine to zero.
function optimizerStep({ training }: PretrainRecipe, step: number) {
  const warm = Math.min(1, step / Math.max(1, training.warmup_steps))
  const cosine = 0.5 + 0.5 * Math.cos((Math.PI * step) / training.steps)
  return {
    type: 'adamw' as const,
    learningRate: training.learning_rate * warm * cosine,
    beta1: training.beta1,
    beta2: training.beta2,
    epsilon: 1e-8,
    weightDecay: training.weight_decay,
    maxGradientNorm: training.max_grad_norm,
  }
}

function drawRows(
  recipe: PretrainRecipe,
  model: Model,
  sources: { share: number; text: Awaited<ReturnType<typeof openDemonstrations>> }[],
  step: number,
) {
  const { rows } = recipe.training
  const total = sources.reduce((sum, { share }) => sum + share, 0)
  return Array.from({ length: rows }, (_, i) => {
    // The shares are met in every step: row i belongs to the source in whose stretch (i + ½)/rows lies.
    const at = ((i + 0.5) / rows) * total
    const source = sources.find((_, j) => sources.slice(0, j + 1).reduce((sum, { share }) => sum + share, 0) > at)!
    const { prompt, completion } = source.text.draw(recipe.seed, (step - 1) * rows + i)
    return supervisedRow(model, { prompt, completion: completion[0].content })
  })
}

/** What one sampled answer to each held-out example is worth, at temperature 1. */
async function openEvaluation(recipe: PretrainRecipe, model: Model, policy: Policy): Promise<Run> {
  const { environment: id, args, examples, max_tokens } = recipe.evaluation
  const environment = createEnvironmentPort()
  const environments = await environment.open({ environments: [{ id, name: id, args, ratio: 1 }], seed: recipe.seed })
  const config = runConfig.parse({
    seed: recipe.seed,
    seq_len: model.card.maxLength,
    sampling: { max_tokens, temperature: 1 },
    eval: { num_examples: examples, rollouts_per_example: 1 },
  })
  return { config, policy, script: scriptOf(model), environment, environments }
}

async function heldOut(run: Run): Promise<{ reward: number; exact: number }> {
  const { questions } = await evaluate(run)
  const rewards = questions.flatMap(({ answers }) => answers.map(({ reward }) => reward ?? 0))
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const digits = (value: number) => Math.round(value * 1e4) / 1e4
  return { reward: digits(mean(rewards)), exact: digits(mean(rewards.map((reward) => Number(reward === 1)))) }
}

function rounded({ loss, gradientNorm, tokens }: SupervisedReport) {
  return { loss: Number(loss.toPrecision(5)), gradientNorm: Number(gradientNorm.toPrecision(4)), tokens }
}

/** The architecture with its tokenizer and no weights. */
async function blankModel(recipe: PretrainRecipe): Promise<Model> {
  const files = modelFiles(recipe)
  const empty = writeSafetensors([], 'F32')
  const read: Read = async (path, range) => {
    const bytes = path === 'model.safetensors' ? empty : files[path]
    if (!bytes) throw new MissingFile(`Read ${path}: there is no such file.`)
    return range ? bytes.subarray(range.start, range.end) : bytes
  }
  return openModel(read, recipe.name, { weights: false })
}

function modelFiles({ architecture }: PretrainRecipe): Record<string, Uint8Array> {
  const json = (value: object) => new TextEncoder().encode(`${JSON.stringify(value, null, 2)}\n`)
  const config = qwen3Config({ ...architecture, tie_word_embeddings: true, vocab_size: BYTE_VOCABULARY }, 'float16')
  return {
    'config.json': json(config),
    'generation_config.json': json({ eos_token_id: 257, pad_token_id: 258, temperature: 1 }),
    'tokenizer.json': json(byteTokenizerJson()),
    'tokenizer_config.json': json(byteTokenizerConfig(architecture.max_position_embeddings)),
  }
}

async function writeModel(folder: string, recipe: PretrainRecipe, policy: Policy, card: object): Promise<void> {
  for (const [name, bytes] of Object.entries(modelFiles(recipe))) await writeAtomically(join(folder, name), bytes)
  await writeAtomically(join(folder, 'model.safetensors'), writeSafetensors(await policy.tensors(), 'F16'))
  await writeAtomically(join(folder, 'training.json'), new TextEncoder().encode(`${JSON.stringify(card, null, 2)}\n`))
}

// ── Saves: a JSON line, then weights and both moments as f32 ─────────────────────────────────────────────────────────

async function packState(policy: Policy, step: number, seconds: number): Promise<Uint8Array> {
  const { trainable, firstMoment, secondMoment, optimizerSteps, version } = await policy.state()
  const head = new TextEncoder().encode(
    `${JSON.stringify({ step, seconds, optimizerSteps, version, size: trainable.length }).padEnd(255)}\n`,
  )
  const file = new Uint8Array(head.length + 12 * trainable.length)
  file.set(head)
  ;[trainable, firstMoment, secondMoment].forEach((part, i) => {
    new Float32Array(file.buffer, head.length + 4 * i * trainable.length, trainable.length).set(part)
  })
  return file
}

async function restore(policy: Policy, path: string): Promise<{ step: number; seconds: number }> {
  const file = await readFile(path)
  const { step, seconds, optimizerSteps, version, size } = JSON.parse(file.subarray(0, 256).toString()) as Record<
    string,
    number
  >
  const numbers = new Float32Array(file.buffer.slice(file.byteOffset + 256, file.byteOffset + 256 + 12 * size))
  await policy.restore({
    trainable: numbers.slice(0, size),
    firstMoment: numbers.slice(size, 2 * size),
    secondMoment: numbers.slice(2 * size),
    optimizerSteps,
    version,
  })
  return { step, seconds }
}

async function readLines(path: string): Promise<CurveLine[]> {
  const lines: CurveLine[] = []
  for await (const line of createInterface({ input: createReadStream(path) }))
    if (line.trim()) lines.push(JSON.parse(line) as CurveLine)
  return lines
}

async function writeAtomically(path: string, bytes: Uint8Array): Promise<void> {
  await writeFile(`${path}.partial`, bytes)
  await rename(`${path}.partial`, path)
}
