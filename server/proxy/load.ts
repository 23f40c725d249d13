// Reads how busy a node is from the Prometheus text of its /metrics: vLLM's names, and SGLang's.

export interface Load {
  running: number
  waiting: number
  /** From 0 to 1, of the fullest engine. */
  kvCache: number
  /** When the node's process began, seconds since 1970; null when it does not tell. */
  startedAt: number | null
}

const RUNNING = /^(vllm:num_requests_running|sglang:num_running_reqs)$/
const WAITING = /^(vllm:num_requests_waiting|sglang:num_queue_reqs)$/
const KV_CACHE = /^(vllm:kv_cache_usage_perc|vllm:gpu_cache_usage_perc|sglang:token_usage)$/

/** Null when none of the names is there. Engines of one node are added up. */
export function parseLoad(text: string): Load | null {
  let known = false
  const load: Load = { running: 0, waiting: 0, kvCache: 0, startedAt: null }
  for (const line of text.split('\n')) {
    if (line.startsWith('#')) continue
    const name = line.match(/^[A-Za-z_:][\w:]*/)?.[0]
    const value = Number(line.slice(line.lastIndexOf(' ') + 1))
    if (name === undefined || !Number.isFinite(value) || value < 0) continue
    if (name === 'process_start_time_seconds') load.startedAt = value
    else if (RUNNING.test(name)) load.running += value
    else if (WAITING.test(name)) load.waiting += value
    else if (KV_CACHE.test(name)) load.kvCache = Math.min(1, Math.max(load.kvCache, value))
    else continue
    if (name !== 'process_start_time_seconds') known = true
  }
  return known ? load : null
}
