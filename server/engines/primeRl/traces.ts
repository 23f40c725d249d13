// Episodes as prime-rl writes them, one a line -> groups of rollouts as the samples view shows them. An episode holds the
// traces of its agents; a trace is a graph of messages, and its longest path is the rollout.

import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { isTable, type Table } from '../../../configs/path.ts'
import type { Message } from '../../../environments/messages.ts'
import type { GroupRecord, RolloutRecord, TokenRecord } from '../../../workers/protocol.ts'
import type { TokenTexts } from './tokenTexts.ts'

/** Rollouts of a step that are shown; a full-size step can have thousands. */
const MOST_ROLLOUTS = 256
/** Tokens of a step that are shown; of further rollouts the messages alone. */
const MOST_TOKENS = 50_000
const LONGEST_LINE = 8 * 1024 * 1024

/**
 * The newest episodes of a file, a batch of them, as groups; a line that cannot be read is left out.
 * @param texts what ids spell; null where nobody can say: then the messages alone are told
 */
export async function readGroups(path: string, batch: number, texts: TokenTexts | null = null): Promise<GroupRecord[]> {
  const lines: string[] = []
  const stream = createReadStream(path, { encoding: 'utf8' })
  try {
    for await (const line of createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY })) {
      // What has no end yet is being written.
      if (line.length > LONGEST_LINE || !line.endsWith('}')) continue
      lines.push(line)
      // What is older than a batch belongs to an earlier attempt at the same step.
      if (lines.length > batch) lines.shift()
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
  return groupsOf(lines.slice(0, MOST_ROLLOUTS).flatMap(parsed), texts)
}

function parsed(line: string): Table[] {
  try {
    const episode: unknown = JSON.parse(line)
    return isTable(episode) ? [episode] : []
  } catch {
    return []
  }
}

export function groupsOf(episodes: Table[], texts: TokenTexts | null = null): GroupRecord[] {
  let room = MOST_TOKENS
  const groups = new Map<string, GroupRecord>()
  for (const episode of episodes) {
    const traces = tables(episode.traces)
    // An episode that failed before anybody had spoken has no trace, and is shown as a rollout that errored.
    if (traces.length === 0 && isTable(episode.task)) traces.push({ task: episode.task, ok: false })
    for (const trace of traces) {
      const data = table(table(trace.task).data)
      const env = table(episode.env)
      const environment = text(env.name) || text(env.id) || text(table(trace.task).type) || 'environment'
      const index = number(data.idx) ?? number(table(trace.info).example_id) ?? 0
      const key = text(table(episode.group).id) || text(table(trace.group).id) || `${environment}/${index}`
      const { prompt, rollout, said } = rolloutOf(trace, episode)
      const tokens = texts && tokensOf(said, texts, room)
      room -= tokens?.text.length ?? 0
      let group = groups.get(key)
      if (!group) {
        const answer =
          typeof data.answer === 'string' ? data.answer : data.answer == null ? '' : JSON.stringify(data.answer)
        group = { task: groups.size, exampleId: index, environment, prompt, answer, rollouts: [], reason: null }
        groups.set(key, group)
      }
      if (group.prompt.length === 0) group.prompt = prompt
      group.rollouts.push({ ...rollout, tokens, attempt: group.rollouts.length })
    }
  }
  return [...groups.values()]
}

/** `said`: the nodes after the prompt. */
function rolloutOf(trace: Table, episode: Table): { prompt: Message[]; rollout: RolloutRecord; said: Table[] } {
  const nodes = tables(trace.nodes)
  const path = longestPath(nodes)
  const first = path.findIndex((node) => node.sampled === true)
  const split = first < 0 ? path.length : first
  const errors = [...tables(episode.errors), ...tables(trace.errors)]
  const failed = trace.ok === false && errors.length > 0
  const scores = Object.entries(table(trace.rewards)).flatMap(([name, reward]) =>
    isTable(reward) && typeof reward.score === 'number'
      ? [{ name, score: reward.score, weight: number(reward.weight) ?? 1 }]
      : [],
  )
  const metrics = Object.fromEntries([
    ...scores.map(({ name, score }) => [name, score] as const),
    ...Object.entries(table(trace.metrics)).filter((entry): entry is [string, number] => typeof entry[1] === 'number'),
  ])
  const stop = text(trace.stop_condition)
  return {
    prompt: path.slice(0, split).map(messageOf),
    said: path.slice(split),
    rollout: {
      attempt: 0,
      messages: path.slice(split).map(messageOf),
      reward: failed || scores.length === 0 ? null : scores.reduce((sum, { score, weight }) => sum + score * weight, 0),
      advantage: advantageOf(trace, path),
      metrics,
      stop: stop || (trace.is_completed === true ? 'completed' : ''),
      error: failed ? `${text(errors[errors.length - 1].type)}: ${text(errors[errors.length - 1].message)}` : null,
      truncated: tables(trace.calls).at(-1)?.finish_reason === 'length' || /length|max_|truncat/.test(stop),
      promptTokens: path.slice(0, split).reduce((sum, node) => sum + list(node.token_ids).length, 0),
      tokens: null,
    },
  }
}

/**
 * A trace has ids and the sampler's log-probabilities, rounded here to four decimals; neither entropy nor what the trainer
 * made of them. null where a node has no ids, or numbers that do not fit them.
 */
function tokensOf(nodes: Table[], texts: TokenTexts, room: number): TokenRecord | null {
  const ids: number[] = []
  const sampled: number[] = []
  const logMu: number[] = []
  for (const node of nodes) {
    const own = list(node.token_ids)
    const mask = list(node.mask).map((learned) => (node.sampled === true && learned === true ? 1 : 0))
    const logprobs = list(node.logprobs)
    const counted = mask.filter((each) => each === 1).length
    if (own.length === 0 || mask.length !== own.length || ids.length + own.length > room) return null
    // One for each id, or for each sampled one.
    if (counted > 0 && logprobs.length !== own.length && logprobs.length !== counted) return null
    let at = 0
    for (const [i, id] of own.entries()) {
      const logprob = mask[i] === 0 ? 0 : number(logprobs[logprobs.length === own.length ? i : at++])
      if (!Number.isInteger(id) || (id as number) < 0 || logprob === null) return null
      ids.push(id as number)
      sampled.push(mask[i])
      logMu.push(Math.round(logprob * 1e4) / 1e4)
    }
  }
  if (!sampled.includes(1)) return null
  return { text: texts(ids), sampled, logMu, entropy: null, logp: null, logpAfter: null, slope: null }
}

/** The first number of the policy's credit: it is the same for every token of a rollout in all but a few algorithms. */
function advantageOf(trace: Table, path: Table[]): number | null {
  const whole = number(table(trace.info).advantage) ?? number(trace.advantage)
  if (whole !== null) return whole
  for (const node of path) {
    const [first] = list(node.advantages)
    if (typeof first === 'number') return first
  }
  return null
}

function longestPath(nodes: Table[]): Table[] {
  const parents = new Set(nodes.flatMap(({ parent }) => (typeof parent === 'number' ? [parent] : [])))
  let best: Table[] = []
  for (let leaf = 0; leaf < nodes.length; leaf++) {
    if (parents.has(leaf)) continue
    const path: Table[] = []
    let at: number | null = leaf
    while (at !== null && nodes[at] && path.length <= nodes.length) {
      path.push(nodes[at])
      const { parent }: Table = nodes[at]
      at = typeof parent === 'number' ? parent : null
    }
    if (path.length > best.length) best = path
  }
  return best.reverse()
}

const ROLES = ['system', 'user', 'assistant', 'tool'] as const

function messageOf(node: Table): Message {
  const message = table(node.message)
  const role = ROLES.find((each) => each === message.role) ?? 'user'
  const reasoning = text(message.reasoning_content)
  const said = contentOf(message.content)
  const calls = tables(message.tool_calls).map((call) => ({
    ...{ id: text(call.id), name: text(call.name), arguments: text(call.arguments) },
  }))
  return {
    role,
    content: reasoning ? `<think>\n${reasoning}\n</think>\n${said}` : said,
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
    ...(message.tool_call_id === undefined ? {} : { tool_call_id: text(message.tool_call_id) }),
  }
}

/** Text, or the texts of its parts; pictures are named, not shown. */
function contentOf(content: unknown): string {
  if (typeof content === 'string') return content
  return tables(content)
    .map((part) => (typeof part.text === 'string' ? part.text : `[${text(part.type) || 'part'}]`))
    .join('')
}

const table = (value: unknown): Table => (isTable(value) ? value : {})
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])
const tables = (value: unknown): Table[] => list(value).filter(isTable)
const text = (value: unknown): string => (typeof value === 'string' ? value : '')
const number = (value: unknown): number | null => (typeof value === 'number' ? value : null)
