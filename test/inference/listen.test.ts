// The model server as a node on a port of its own.

import OpenAI from 'openai'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ROOT } from '../../build/paths.ts'
import { type InferenceNode, listenAsNode } from '../../server/inference/listen.ts'

let node: InferenceNode
beforeAll(async () => {
  node = await listenAsNode({ root: ROOT, backend: 'wasm' })
})
afterAll(() => node.close())

it('answers nobody without its key, but tells that it is well', async () => {
  for (const path of ['/v1/models', '/v1/chat/completions', '/tokenize', '/nothing'])
    for (const authorization of ['', 'Bearer ', `Bearer ${node.key}x`, node.key])
      expect((await fetch(node.url + path, { headers: { authorization } })).status, path).toBe(401)
  expect((await fetch(`${node.url}/health`)).status).toBe(200)
  expect(await (await fetch(`${node.url}/metrics`)).text()).toContain('vllm:num_requests_running')
})

it('answers with its key, and adapters cannot be loaded where no folder is named', async () => {
  const client = new OpenAI({ baseURL: `${node.url}/v1`, apiKey: node.key })
  const ask = { model: 'lab-nano', prompt: 'ab', max_tokens: 2, seed: 1 }
  expect((await client.completions.create(ask)).usage!.completion_tokens).toBeLessThanOrEqual(2)
  const response = await fetch(`${node.url}/v1/load_lora_adapter`, {
    method: 'POST',
    headers: { authorization: `Bearer ${node.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ lora_name: 'x', lora_path: '/tmp' }),
  })
  expect(response.status).toBe(404)
})
