// What the proxy tells about itself, as the JSON of /api/proxy. Types alone: the page and the command line know these.

/**
 * `unknown` not asked yet · `up` · `open` its breaker keeps requests away until a time · `probing` one request tries it ·
 * `down` its health checks fail · `draining` no new requests · `drained` nothing is left on it.
 */
export type NodeState = 'unknown' | 'up' | 'open' | 'probing' | 'down' | 'draining' | 'drained'

export interface NodeView {
  name: string
  /** Host and port, without path or credentials. */
  address: string
  state: NodeState
  /** A sentence: why it is not `up`. Null when it is. */
  reason: string | null
  /** When this state began, ISO 8601. */
  since: string
  /** When it is looked at again, ISO 8601; null where nothing is waited for. */
  until: string | null
  /** Requests of this proxy that are on it, and how many may be. */
  inFlight: number
  maxInFlight: number
  /** The node's own numbers, as it last told them; null when it has not. `kvCache` from 0 to 1. */
  load: { running: number; waiting: number; kvCache: number; at: string } | null
  models: { id: string; parent: string | null; maxModelLength: number | null }[]
  adapters: NodeAdapterView[]
}

/**
 * `loaded` · `loading` · `no-shared-path` the node cannot see the file, or has no `adapter_root` · `over-limit` its rank or
 * number is above the node's limits · `no-base` the node does not serve its base model · `failed` the node refused it ·
 * `unreachable` the node is not up.
 */
export type AdapterState = 'loaded' | 'loading' | 'no-shared-path' | 'over-limit' | 'no-base' | 'failed' | 'unreachable'

export interface NodeAdapterView {
  /** The name under which the node serves it. */
  servedName: string
  state: AdapterState
  reason: string | null
}

export interface AdapterView {
  id: string
  project: string
  /** What a request asks for: `name` is its newest version, `name@version` this one. */
  name: string
  version: number
  /** The name under which nodes serve it: unique by content, so no cache can mistake it for another. */
  servedName: string
  baseModel: string
  rank: number
  bytes: number
  /** SHA-256 of adapter_model.safetensors, hexadecimal. */
  sha256: string
  createdAt: string
  nodes: { node: string; state: AdapterState; reason: string | null }[]
}

export interface QueueView {
  waiting: number
  capacity: number
  /** Seconds a request may wait before it is answered with 429. */
  patienceSeconds: number
  /** How long the first in line has waited, seconds; null when nobody waits. */
  oldestSeconds: number | null
  byModel: { model: string; waiting: number }[]
}

export interface UsageView {
  /** UTC day, `2026-11-21`. */
  day: string
  project: string
  key: string
  model: string
  requests: number
  /** Requests that ended in an error of the server or a node, and streams that were cut. */
  failed: number
  promptTokens: number
  completionTokens: number
  /** Requests whose tokens the node did not tell: their completion tokens are counted by events, their prompt's not. */
  estimated: number
}

/** Every refusal of the proxy, in OpenAI's shape. */
export interface ErrorView {
  error: { message: string; type: string; param: string | null; code: string }
}
