// GET /metrics, under vLLM's names, so that whatever reads a vLLM node reads this one. No text of a user is in it.

import { Counter, Gauge, Registry } from 'prom-client'
import type { Engine } from './engine.ts'

export interface Count {
  prompt(model: string, tokens: number): void
  sampled(model: string, tokens: number): void
  finished(model: string, reason: string): void
}

export function createMetrics(engine: Engine): { count: Count; text(): Promise<string>; contentType: string } {
  const registers = [new Registry()]
  const counter = <Label extends string>(name: string, help: string, labelNames: Label[]) =>
    new Counter({ name: `vllm:${name}`, help, labelNames, registers })
  const prompt = counter('prompt_tokens_total', 'Tokens of prompts that were taken.', ['model_name'])
  const sampled = counter('generation_tokens_total', 'Tokens that were sampled.', ['model_name'])
  const finished = counter('request_success_total', 'Answers by how they ended.', ['model_name', 'finished_reason'])
  const running = new Gauge({ name: 'vllm:num_requests_running', help: 'Answers that decode now.', registers })
  const waiting = new Gauge({ name: 'vllm:num_requests_waiting', help: 'Answers that wait for a batch.', registers })
  return {
    count: {
      prompt: (model, tokens) => prompt.inc({ model_name: model }, tokens),
      sampled: (model, tokens) => sampled.inc({ model_name: model }, tokens),
      finished: (model, reason) => finished.inc({ model_name: model, finished_reason: reason }),
    },
    async text() {
      const load = await engine.load()
      running.set(load.running)
      waiting.set(load.waiting)
      return registers[0].metrics()
    },
    contentType: registers[0].contentType,
  }
}
