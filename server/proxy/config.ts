// The tables of server.toml that are the proxy's: [proxy] and [[node]]. Times are seconds, sizes bytes. A node is named
// here and nowhere else: no request can bring one.

import { z } from 'zod'
import { addressProblem } from './address.ts'

const seconds = z.number().positive().max(86_400)
const count = z.number().int().positive()

const slug = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'is letters, digits, dots, dashes and underscores, 64 at most')

const url = z.string().superRefine((text, context) => {
  const problem = addressProblem(text)
  if (problem) context.addIssue({ code: 'custom', message: problem.replace(/\.$/, '') })
})

const deadlinesSchema = z.strictObject({
  /** To a node's accepted connection. */
  connect_seconds: seconds.default(2),
  /** To the first byte of a stream. */
  first_byte_seconds: seconds.default(60),
  /** To the first byte of an answer that is not streamed: a node sends none before it has generated all. */
  answer_seconds: seconds.default(600),
  /** Between two pieces of an answer. */
  gap_seconds: seconds.default(60),
  /** From a request's arrival to the end of its answer. */
  whole_seconds: seconds.default(1800),
  /** A client that takes nothing of its answer. */
  stalled_client_seconds: seconds.default(120),
  /** To the last byte of a request's body. */
  body_seconds: seconds.default(30),
})

const override = z.strictObject({
  route: z.string().optional(),
  model: z.string().optional(),
  first_byte_seconds: seconds.optional(),
  answer_seconds: seconds.optional(),
  gap_seconds: seconds.optional(),
  whole_seconds: seconds.optional(),
})

/** Routes that generate nothing answer soon. */
const QUICK: z.output<typeof override>[] = [
  { route: '/tokenize', answer_seconds: 10 },
  { route: '/detokenize', answer_seconds: 10 },
  { route: '/v1/embeddings', answer_seconds: 60 },
]

export const nodeSchema = z.strictObject({
  name: slug,
  /** Where the node answers requests: http or https, with a path where vLLM is mounted below one. */
  url,
  /** Where it answers admin verbs, when elsewhere: vLLM's own port behind a router. */
  admin_url: url.optional(),
  /** The environment variable that holds the node's API key. The key itself never stands in a file. */
  key_env: z.string().optional(),
  /** Models that it serves beyond those that it lists: `transformers serve` lists the hub's alone. */
  models: z.array(z.string().min(1)).default([]),
  /** Requests that may be on it at once; more wait here, fairly. */
  max_in_flight: count.max(100_000).default(256),
  /** One folder under two names: as this server writes it, and as the node reads it. */
  adapter_root: z.strictObject({ server: z.string().min(1), node: z.string().min(1) }).optional(),
  /** vLLM's --max-lora-rank and --max-cpu-loras, which it does not tell by itself. */
  max_lora_rank: count.default(16),
  max_adapters: count.default(8),
})

export const proxySchema = z.strictObject({
  deadlines: deadlinesSchema.prefault({}),
  /** Other deadlines for a route, a model, or both; a later one goes before an earlier one. */
  deadline: z.array(override).default([]),
  health: z
    .strictObject({
      every_seconds: seconds.default(5),
      /** After a good answer that follows a bad one. */
      again_seconds: seconds.default(1),
      timeout_seconds: seconds.default(2),
      models_every_seconds: seconds.default(30),
      bad: count.default(3),
      good: count.default(2),
    })
    .prefault({}),
  breaker: z
    .strictObject({
      consecutive: count.default(5),
      /** Opens too when more than this share of at least so many answers in so many seconds failed. */
      share: z.number().min(0).max(1).default(0.5),
      least: count.default(20),
      window_seconds: seconds.default(30),
      open_seconds: seconds.default(10),
      longest_open_seconds: seconds.default(60),
    })
    .prefault({}),
  retries: z
    .strictObject({
      most: z.number().int().min(0).max(10).default(2),
      /** Retries per request on the average, beyond a reserve: an outage is not doubled. */
      budget: z.number().min(0).max(1).default(0.1),
      reserve: z.number().min(0).default(20),
      shortest_wait_seconds: seconds.default(0.05),
      longest_wait_seconds: seconds.default(0.15),
    })
    .prefault({}),
  queue: z
    .strictObject({
      capacity: z.number().int().min(0).max(100_000).default(256),
      patience_seconds: seconds.default(30),
    })
    .prefault({}),
  sticky: z
    .strictObject({
      session_header: z
        .string()
        .regex(/^[a-z0-9-]+$/)
        .default('x-session-id'),
      /** How much fuller than the emptiest node the node of a session or prefix may be, as a share of its places. */
      slack: z.number().min(0).max(1).default(0.25),
      /** Prefixes are remembered in pieces of so many bytes. */
      piece_bytes: count.default(512),
      pieces: count.default(50_000),
    })
    .prefault({}),
  limits: z
    .strictObject({
      body_bytes: count.default(1_048_576),
      depth: count.max(512).default(64),
      n: count.default(128),
      max_tokens: count.default(32_768),
      logprobs: z.number().int().min(0).default(20),
      prompts: count.default(2048),
      tools: count.default(128),
      /** Hosts from which a node may fetch an image, sound or film that a prompt names; none unless listed. */
      media_hosts: z.array(z.string()).default([]),
      /** Fields that are refused by name. */
      refused_fields: z
        .array(z.string())
        .default([
          ...['api_base', 'base_url', 'api_key', 'api_version', 'headers', 'extra_headers', 'extra_query'],
          ...['chat_template', 'kv_transfer_params', 'logits_processors', 'prompt_embeds'],
        ]),
      adapter_bytes: count.default(2 ** 31),
    })
    .prefault({}),
  rates: z
    .strictObject({
      requests_per_minute: count.optional(),
      tokens_per_minute: count.optional(),
    })
    .prefault({}),
  /** Rates of single keys or projects, by their names; a key's goes before its project's. */
  rate: z
    .array(
      z.strictObject({
        key: z.string().optional(),
        project: z.string().optional(),
        requests_per_minute: count.optional(),
        tokens_per_minute: count.optional(),
      }),
    )
    .default([]),
  /** Other names for models and adapters. */
  aliases: z.record(z.string().min(1), z.string().min(1)).default({}),
  /** Whether this server's own models are a node too, called `this-server`. */
  own_models: z.boolean().default(true),
})

export type ProxyConfig = z.output<typeof proxySchema>
export type NodeConfig = z.output<typeof nodeSchema>
export type Deadlines = z.output<typeof deadlinesSchema>

/** Every default. */
export const DEFAULTS: ProxyConfig = proxySchema.parse({})

/** The deadlines of one request. */
export function deadlinesOf(config: ProxyConfig, route: string, model: string): Deadlines {
  let deadlines = config.deadlines
  for (const { route: onRoute, model: ofModel, ...other } of [...QUICK, ...config.deadline]) {
    if (onRoute !== undefined && onRoute !== route) continue
    if (ofModel !== undefined && ofModel !== model) continue
    for (const [name, value] of Object.entries(other))
      if (value !== undefined) deadlines = { ...deadlines, [name]: value }
  }
  return deadlines
}
