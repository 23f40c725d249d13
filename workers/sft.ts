// One step of supervised fine-tuning: make the shown completions likelier. The loss is the mean of −log π over the target
// tokens of the whole batch, so the slope of every token is −1/N; with `trainable: 'all'` this is pretraining.

import type { TemplateMessage } from './policy/chatTemplate.ts'
import type { Model } from './policy/load.ts'
import type { OptimizerStep, Policy, Row } from './policy/policy.ts'

export interface SupervisedExample {
  prompt: TemplateMessage[]
  completion: string
}

export interface SupervisedReport {
  /** Mean −log π per target token, nats. */
  loss: number
  gradientNorm: number
  tokens: number
}

/** Prompt, completion and the stop token as one row; the targets are what the model itself would say. */
export function supervisedRow(model: Model, { prompt, completion }: SupervisedExample): Row {
  const asked = model.template.renderPrompt(prompt)
  const said = [...model.tokenizer.encode(completion), model.stopTokens[0]]
  return {
    ids: Int32Array.from([...asked, ...said]),
    targets: Int32Array.from(said, (_, i) => asked.length + i),
    temperature: 1,
  }
}

export async function sftStep(
  policy: Policy,
  rows: Row[],
  microBatchSize: number,
  optimizer: OptimizerStep,
): Promise<SupervisedReport> {
  // Counted over the whole batch before the first pass, so that its split cannot matter.
  const tokens = rows.reduce((sum, row) => sum + row.targets.length, 0)
  let loss = 0
  for (let at = 0; at < rows.length; at += microBatchSize) {
    const { logp, pass } = await policy.logprobs(rows.slice(at, at + microBatchSize), { adapter: 'live', keep: true })
    for (const value of logp) loss -= value / tokens
    await policy.backward(pass!, new Float32Array(logp.length).fill(-1 / tokens))
  }
  const { gradientNorm } = await policy.update(optimizer)
  return { loss, gradientNorm, tokens }
}
