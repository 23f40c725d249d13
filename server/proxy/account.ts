// What is known of one request: who asks, and what became of it. Holds no text of the user's.

/** Who asks, as access has found out. */
export interface Caller {
  /** The key's id or name, never the key. */
  key: string
  project: string
  /** Aborts when the right to the answer ends while it is on its way. */
  ended?: AbortSignal
}

export type Outcome =
  | 'answered'
  /** An error that the node gave to the request: 4xx. */
  | 'client_error'
  /** A refusal of ours. */
  | 'refused'
  | 'failed'
  | 'cut'
  | 'left'
  | 'stalled'

/** What became of a request, for usage and metrics. */
export interface Account {
  caller: Caller
  route: string
  /** The name that was asked for where it means something; null otherwise, since it is then the user's own text. */
  model: string | null
  node: string | null
  attempts: number
  outcome: Outcome
  status: number
  tokens: { prompt: number; completion: number; estimated: boolean }
  seconds: number
  firstByteSeconds: number | null
}

/** What every answer says of itself. */
export function told(id: string, { node, attempts }: Account): Record<string, string> {
  return {
    'x-request-id': id,
    ...(node !== null && { 'x-rollout-lab-node': node }),
    'x-rollout-lab-attempts': String(attempts),
  }
}
