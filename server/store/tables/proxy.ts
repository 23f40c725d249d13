// What the proxy keeps: adapters that nodes are to serve, and what keys have used.

/** One adapter, in one version. Its files lie in the data folder. */
export interface ProxyAdapterRow {
  id: string
  project: string
  name: string
  version: number
  /** The name under which nodes serve it. */
  served_name: string
  base_model: string
  rank: number
  bytes: number
  /** Of adapter_model.safetensors, hexadecimal. */
  sha256: string
  created_at: number
}

/** What a key used of a model on one day. */
export interface ProxyUsageRow {
  /** UTC, `2026-11-21`. */
  day: string
  project: string
  key_name: string
  /** '' for requests that named no model of ours. */
  model: string
  requests: number
  failed: number
  prompt_tokens: number
  completion_tokens: number
  estimated: number
}

export interface ProxyTables {
  proxy_adapter: ProxyAdapterRow
  proxy_usage: ProxyUsageRow
}
