// Plays open answers to their end: the policy speaks, the environment replies, until a stop condition or a limit. All
// open answers decode together; each has its own noise, so that no token depends on its neighbours.

import type { Message } from '../../environments/messages.ts'
import type { AdapterChoice, Completion, SamplingOptions, TurnRequest } from '../policy/policy.ts'
import { noiseKey, type Purpose } from '../random.ts'
import type { Answer, Question } from './answer.ts'
import { longestSequence, type Run } from './run.ts'

export interface Sampling {
  purpose: Purpose
  temperature: number
  topP: number
  topK: number
  minP: number
  maxTokens: number
  /** Whose answers these are. */
  adapter: AdapterChoice
}

export interface ConverseControl {
  signal?: AbortSignal
  /** Answers ended, and tokens sampled, so far. */
  onProgress?: (done: number, tokens: number) => void
}

export async function converse(
  run: Run,
  questions: Question[],
  sampling: Sampling,
  { signal, onProgress }: ConverseControl = {},
): Promise<void> {
  const answers = questions.flatMap((question) => question.answers)
  const sequences = new Map(answers.map((answer, sequence) => [answer, sequence]))
  const sampler = run.policy.sampler(samplerOptions(run, sampling))
  let sampled = 0
  try {
    let turns = answers.filter((answer) => answer.open).map((answer) => firstTurn(run, answer, sampling))
    while (turns.length > 0) {
      const ended = answers.filter((answer) => !answer.open).length
      const completions = await sampler.complete(
        turns.map(({ answer, request }) => ({ ...request, sequence: sequences.get(answer) as number })),
        { signal, onProgress: (tokens, open) => onProgress?.(ended + turns.length - open, sampled + tokens) },
      )
      signal?.throwIfAborted()
      sampled += completions.reduce((sum, { ids }) => sum + ids.length, 0)
      turns = await reply(run, answers, completions, sampling)
      signal?.throwIfAborted()
    }
  } finally {
    sampler.dispose()
  }
}

interface Turn {
  answer: Answer
  request: Omit<TurnRequest, 'sequence'>
}

function samplerOptions(run: Run, { temperature, topP, topK, minP, adapter }: Sampling): SamplingOptions {
  const { script, config } = run
  return {
    temperature,
    topP,
    topK,
    minP,
    repetitionPenalty: config.sampling.repetition_penalty,
    stopTokens: script.stopTokens,
    stopStrings: config.sampling.stop,
    decode: (ids) => script.decode(ids),
    maxLength: longestSequence(run),
    adapter,
  }
}

function firstTurn(run: Run, answer: Answer, sampling: Sampling): Turn {
  return nextTurn(run, answer, answer.tokens, sampling)
}

function nextTurn(run: Run, answer: Answer, ids: Int32Array, { purpose, maxTokens }: Sampling): Turn {
  const noise = noiseKey(run.config.seed, purpose, answer.number, answer.attempt)
  return { answer, request: { ids, noise, maxTokens } }
}

/** Hands the policy's messages to the environment, and gives back the turns of the answers that go on. */
async function reply(run: Run, answers: Answer[], completions: Completion[], sampling: Sampling): Promise<Turn[]> {
  const turns = completions.map((completion) => {
    const answer = answers[completion.sequence]
    answer.wrote(completion)
    const message: Message = { role: 'assistant', content: textOf(run, completion) }
    answer.messages.push(message)
    const truncated = completion.stop === 'max_tokens' || completion.stop === 'max_length'
    return { answer, completion, message, truncated }
  })
  const responses = await run.environment.respond(
    turns.map(({ answer, message, truncated }) => ({ handle: answer.handle, message, truncated })),
    run.config.browser.environment_deadline_ms,
  )
  return turns.flatMap(({ answer, completion, truncated }, i): Turn[] => {
    const { done, stop, messages, error } = responses[i]
    if (error !== null) {
      answer.fail(error)
      return []
    }
    answer.messages.push(...messages)
    if (done) {
      answer.end(stop ?? completion.stop, truncated)
      return []
    }
    // Of several stop tokens the template closes a turn with the first.
    const closed = completion.stop === 'token' && completion.ids.at(-1) === run.script.stopTokens[0]
    const suffix = run.script.renderSuffix(messages, closed)
    // A turn needs room for at least one token of its own.
    if (answer.length + suffix.length >= longestSequence(run)) {
      answer.end('prompt_too_long', true)
      return []
    }
    answer.read(suffix)
    return [nextTurn(run, answer, Int32Array.from(suffix), sampling)]
  })
}

// As inference servers answer: without the end token, and cut before a stop string.
function textOf(run: Run, { ids, stop }: Completion): string {
  const text = run.script.decode(ids)
  if (stop !== 'string') return text
  const cuts = run.config.sampling.stop.map((string) => text.indexOf(string)).filter((index) => index >= 0)
  return text.slice(0, Math.min(text.length, ...cuts))
}
