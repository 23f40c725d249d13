// What one rollout is to its environment: everything that the next turn or the score may depend on, as plain JSON, so
// that it can be saved, sent and taken up elsewhere. Token ids and log-probabilities stay with the trainer.

import type { Example, Message } from './messages.ts'

/** `data` is the environment's own part; it must be plain JSON too. */
export interface State<Data extends object = object> {
  exampleId: number
  task: string
  prompt: Message[]
  /** Everything after the prompt that the policy has answered to or written, in order. */
  completion: Message[]
  /** Said by the environment since the policy's newest message; joins the completion when the policy answers. */
  pending: Message[]
  answer: string
  info: Record<string, unknown>
  /** Names the dice of this rollout; the same for every rollout of one task, so that siblings meet one world. */
  seed: number
  /** Messages that the policy has written. */
  turn: number
  /** True once a message of the policy was cut off by its token limit. */
  truncated: boolean
  /** Set by envResponse to end the rollout with these last words. */
  finalEnvResponse: Message[] | null
  /** The stop condition that fired. */
  stop: string | null
  /** Why the rollout cannot be scored; a sentence. */
  error: string | null
  /** Wall clock at the start, milliseconds since the epoch. */
  startedMs: number
  data: Data
}

export function newState(example: Example, seed: number): State {
  return {
    exampleId: example.exampleId,
    task: example.task,
    prompt: structuredClone(example.prompt),
    completion: [],
    pending: [],
    answer: example.answer,
    info: structuredClone(example.info),
    seed,
    turn: 0,
    truncated: false,
    finalEnvResponse: null,
    stop: null,
    error: null,
    startedMs: Date.now(),
    data: {},
  }
}

/** The state as JSON text. Throws, naming the place, where the state holds what JSON would lose. */
export function serialiseState(state: State): string {
  checkPlain(state, 'state')
  return JSON.stringify(state)
}

export function deserialiseState(text: string): State {
  return JSON.parse(text) as State
}

function checkPlain(value: unknown, path: string): void {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return
  if (typeof value === 'number' && Number.isFinite(value)) return
  if (Array.isArray(value)) {
    value.forEach((item, index) => {
      checkPlain(item, `${path}[${index}]`)
    })
    return
  }
  if (typeof value === 'object' && [Object.prototype, null].includes(Object.getPrototypeOf(value))) {
    for (const [key, item] of Object.entries(value)) if (item !== undefined) checkPlain(item, `${path}.${key}`)
    return
  }
  const found =
    typeof value === 'object' ? (value.constructor?.name ?? 'an object') : `${typeof value} ${String(value)}`
  throw new Error(
    `${path} must be plain JSON to be saved, got ${found}; keep texts, finite numbers, arrays and objects.`,
  )
}
