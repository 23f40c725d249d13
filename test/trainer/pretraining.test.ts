// A checkpoint made from nothing: losses and held-out rewards are written down, and a second call goes on where the
// first one stopped.

import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { pretrain } from '../../cli/pretraining.ts'
import { openNodeDevice } from '../../workers/gpu/node.ts'

const RECIPE = `
name = "lab-test"
seed = 3
[architecture]
hidden_size = 32
num_hidden_layers = 1
num_attention_heads = 2
num_key_value_heads = 1
head_dim = 16
intermediate_size = 48
max_position_embeddings = 96
[[data]]
environment = "reverse-text"
args = { system_prompt = "R.", tag = "r", min_length = 2, max_length = 8 }
[training]
steps = 6
rows = 8
micro_batch_size = 8
learning_rate = 2e-2
warmup_steps = 2
[evaluation]
environment = "reverse-text"
args = { system_prompt = "R.", tag = "r", min_length = 2, max_length = 8, eval_size = 8 }
interval = 3
examples = 8
max_tokens = 16
`

let folder = ''
afterEach(() => rm(folder, { recursive: true, force: true }))

async function pretrained(out: string, seconds?: number) {
  await pretrain({
    ...{ recipe: join(folder, 'recipe.toml'), out: join(folder, out), seconds },
    openDevice: () => openNodeDevice('wasm'),
    write: () => {},
  })
  return (await readdir(join(folder, out))).includes('training.json')
}

async function curve(out: string) {
  const lines = (await readFile(join(folder, out, 'training.jsonl'), 'utf8')).trim().split('\n')
  return lines.map((line) => ({ ...JSON.parse(line), seconds: 0 }))
}

test('writes losses, held-out rewards and a model; stopped after every step it comes to the same', async () => {
  folder = await mkdtemp(join(tmpdir(), 'pretraining-'))
  await writeFile(join(folder, 'recipe.toml'), RECIPE)
  expect(await pretrained('whole')).toBe(true)
  const whole = await curve('whole')
  expect(whole).toHaveLength(6)
  expect(whole[5].loss).toBeLessThan(whole[0].loss)
  const evaluated = whole.filter(({ reward }) => reward !== undefined)
  expect(evaluated.map(({ step }) => step)).toEqual([3, 6])
  for (const { reward, exact } of evaluated) {
    expect(reward).toBeGreaterThanOrEqual(0)
    expect(exact).toBeLessThanOrEqual(reward)
  }
  let calls = 0
  while (!(await pretrained('parts', 0))) calls++
  expect(calls).toBe(5)
  expect(await curve('parts')).toEqual(whole)
}, 60_000)
