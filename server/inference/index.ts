// Our own model server: OpenAI's routes over the bundled models, answered by a thread of this process, offline. Everything
// that talks to a node has a real, small one to talk to. Knows no port and no key: whoever mounts it guards it.

import { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { loadAdapter, unloadAdapter } from './adapters.ts'
import { Admission } from './asking.ts'
import { detokenizeBody, plainMessages, readBody, tokenizeBody } from './body.ts'
import { chat } from './chat.ts'
import { completions } from './completions.ts'
import { asRefusal, Desk } from './desk.ts'
import { Engine, type EngineOptions } from './engine.ts'
import { errorBody, Refused } from './errors.ts'
import { createMetrics } from './metrics.ts'

export interface InferenceOptions extends EngineOptions {
  /** Bytes of a request's body. */
  maxBodyBytes?: number
  /** Answers that may be open at once. */
  maxOpen?: number
  /** Lets adapters below this folder be loaded and unloaded, as on a vLLM node; without it these routes are not there. */
  adapterRoot?: string
}

export interface Inference {
  /** `/v1/…`, `/tokenize`, `/detokenize`, `/health`, `/metrics`, `/version`. */
  app: Hono
  engine: Engine
  close(): Promise<void>
}

export function createInference(options: InferenceOptions): Inference {
  const { maxBodyBytes = 1 << 20, maxOpen = 256, adapterRoot } = options
  const engine = new Engine(options)
  const metrics = createMetrics(engine)
  const desk = new Desk(engine, new Admission(maxOpen), metrics.count)

  const app = new Hono()
  app.use(
    bodyLimit({
      maxSize: maxBodyBytes,
      onError: (c) =>
        c.json(errorBody(new Refused(413, `A request may have ${maxBodyBytes} bytes; this one has more.`)), 413),
    }),
  )
  app.use(async (c, next) => {
    await next()
    const id = c.req.header('x-request-id')
    if (id && /^[\x21-\x7e]{1,128}$/.test(id)) c.header('X-Request-Id', id)
  })
  app.onError((thrown, c) => {
    const error = asRefusal(thrown)
    if (!(error instanceof Refused)) return c.json(errorBody(error), 500)
    if (error.status === 429) c.header('Retry-After', '1')
    return c.json(errorBody(error), error.status)
  })
  app.notFound((c) =>
    c.json(errorBody(new Refused(404, `There is nothing at ${c.req.method} ${c.req.path} here.`)), 404),
  )

  app.post('/v1/chat/completions', (c) => chat(c, desk))
  app.post('/v1/completions', (c) => completions(c, desk))
  app.get('/v1/models', async (c) => {
    const data = (await engine.list()).map(({ name, parent, root, maxLength }) => ({
      id: name,
      object: 'model' as const,
      created: engine.created,
      owned_by: 'rollout-lab',
      // A path of this machine is nobody's business; an adapter's is how a loader knows what it loaded.
      root: parent === null ? name : root,
      parent,
      max_model_len: maxLength,
    }))
    return c.json({ object: 'list' as const, data })
  })
  app.post('/tokenize', async (c) => {
    const body = await readBody(c, tokenizeBody)
    const { prompter, model } = await engine.ready(body.model)
    if ((body.messages == null) === (body.prompt == null))
      throw new Refused(400, 'Give either prompt or messages.', { param: 'prompt' })
    const tokens = body.messages
      ? await prompter.renderChat(model.key, plainMessages(body.messages))
      : await prompter.encode(model.key, body.prompt ?? '')
    const strings = body.return_token_strs ? await prompter.spell(model.key, tokens) : null
    return c.json({ count: tokens.length, max_model_len: model.maxLength, tokens, token_strs: strings })
  })
  app.post('/detokenize', async (c) => {
    const { model: name, tokens } = await readBody(c, detokenizeBody)
    const { prompter, model } = await engine.ready(name)
    return c.json({ prompt: await prompter.decode(model.key, tokens) })
  })
  app.get('/health', (c) => c.body(null, 200))
  app.get('/version', (c) => c.json({ version: 'rollout-lab' }))
  app.get('/metrics', async (c) => c.text(await metrics.text(), 200, { 'Content-Type': metrics.contentType }))
  if (adapterRoot !== undefined) {
    app.post('/v1/load_lora_adapter', (c) => loadAdapter(c, engine, adapterRoot))
    app.post('/v1/unload_lora_adapter', (c) => unloadAdapter(c, engine))
  }
  return { app, engine, close: () => engine.close() }
}
