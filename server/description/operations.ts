// What the routes are about that do not describe themselves: those of runs, of compiling, and of the proxy, whose bodies
// are OpenAI's. A test holds this list and the routes to each other.

import { z } from 'zod'
import { compileRequest } from '../compile/route.ts'
import {
  cancelRequest,
  changeRequest,
  cloneRequest,
  measureRequest,
  previewRequest,
  resumeRequest,
  submitRequest,
} from '../runs/requests.ts'
import type { Operation } from './openapi.ts'

interface About {
  body?: z.ZodType
  /** Parameters by what they mean. */
  query?: Record<string, string>
  headers?: Record<string, string>
  /** What it answers; 200 unless there is a status in front. */
  answer?: string
  description?: string
}

const inIt = (place: string, names: Record<string, string> = {}) =>
  Object.entries(names).map(([name, description]) => ({ name, in: place, description, schema: { type: 'string' } }))

function about(tag: string, summary: string, { body, query, headers, answer, description }: About = {}): Operation {
  const [, status = '200', told = 'Done.'] = /^(\d{3})? ?(.*)$/.exec(answer ?? '') ?? []
  return {
    tags: [tag],
    summary,
    ...(description && { description }),
    parameters: [...inIt('query', query), ...inIt('header', headers)],
    ...(body && {
      requestBody: { content: { 'application/json': { schema: schemaOf(body) } } },
    }),
    responses: { [status]: { description: told || 'Done.' } },
  }
}

function schemaOf(body: z.ZodType): object {
  const { $schema, ...schema } = z.toJSONSchema(body, { io: 'input' })
  return schema
}

const IDEMPOTENT = {
  'Idempotency-Key': 'The same key with the same body is the same run, also at the same time; with another body, 422.',
}
const OPENAI = 'The body goes to a node as it came; fields that OpenAI does not know go with it.'

/** By method and path, as the document spells them. */
export const OPERATIONS: Record<string, Operation> = {
  'GET /api/health': about('health', 'Whether the process answers, and that it is ours'),
  'GET /api/docs': about('health', 'This description, to read'),
  'POST /api/compile': about('compile', 'Write a config for a full-size trainer', {
    body: compileRequest,
    answer: 'The text and notes on every line of it, or problems with line and column.',
  }),

  'GET /api/targets': about('runs', 'List where runs can take place', {
    answer: 'Targets with their cards, what they can give, and what was measured on them.',
  }),
  'POST /api/targets/{target}/measure': about('runs', 'Measure a model on a target', {
    body: measureRequest,
    answer: 'Tokens per second.',
  }),
  'POST /api/runs/preview': about('runs', 'See what would become of a config', {
    body: previewRequest,
    answer: 'The resolved config, what does not carry over and why, its size, and its time where one was measured.',
  }),
  'POST /api/runs': about('runs', 'Submit a run', { body: submitRequest, headers: IDEMPOTENT, answer: '201 The run.' }),
  'GET /api/runs': about('runs', 'List runs', {
    query: {
      state: 'States, separated by commas.',
      label: 'A label that they have.',
      text: 'A part of their name.',
      before: 'The id of the last one seen.',
      limit: '1 to 200.',
    },
    answer: 'Newest first.',
  }),
  'GET /api/runs/{id}': about('runs', 'See a run', { answer: 'The run with its attempts.' }),
  'PATCH /api/runs/{id}': about('runs', 'Change the name or the labels of a run', { body: changeRequest }),
  'DELETE /api/runs/{id}': about('runs', 'Delete a run that has ended', { answer: '204 Deleted.' }),
  'POST /api/runs/{id}/cancel': about('runs', 'Ask a run to end', { body: cancelRequest, answer: '202 Asked.' }),
  'POST /api/runs/{id}/resume': about('runs', 'Go on with a run, as a new attempt', {
    body: resumeRequest,
    answer: '202 Begun.',
  }),
  'POST /api/runs/{id}/clone': about('runs', 'Submit a run like another', {
    body: cloneRequest,
    headers: IDEMPOTENT,
    answer: '201 The new run.',
  }),
  'GET /api/runs/{id}/config': about('runs', 'Read the config of a run', { query: { format: 'json or toml.' } }),
  'GET /api/runs/{id}/events': about('runs', 'Follow the events of a run', {
    description: 'Server-sent events: `run` with the counter of the event as its id, `status`, and `end`.',
    headers: { 'Last-Event-ID': 'The last counter seen: what follows comes without a gap and without a repeat.' },
    query: {
      after: 'The counter after which to begin.',
      brief: 'true leaves out what told only of a moment that is past.',
      samples: 'true sends rollouts in their events.',
    },
    answer: 'Events until the run has ended.',
  }),
  'GET /api/runs/{id}/metrics': about('runs', 'Read the metrics of a run by steps', {
    query: {
      from: 'The first step.',
      to: 'The last.',
      after: 'The counter after which to begin.',
      limit: '1 to 1000.',
    },
  }),
  'GET /api/runs/{id}/rollouts': about('runs', 'Read rollouts of a step', {
    query: {
      step: 'Without it, the steps that have some.',
      split: 'train or eval.',
      offset: 'Groups to pass over.',
      limit: '1 to 64 groups.',
    },
  }),
  'GET /api/runs/{id}/logs/{stream}': about('runs', 'Read a log by byte offset', {
    query: { attempt: 'The last one unless given.', offset: 'Bytes.', limit: 'Bytes, at most 1 MiB.' },
    answer: 'Bytes as they are; X-Next-Offset, X-End and X-Attempt tell how to go on.',
  }),
  'GET /api/runs/{id}/artifacts': about('runs', 'List what a run has left'),
  'GET /api/runs/{id}/artifacts/{artifact}': about('runs', 'Download a file that a run has left'),

  'POST /v1/chat/completions': about('models', 'Chat', { description: OPENAI }),
  'POST /v1/completions': about('models', 'Complete a text', { description: OPENAI }),
  'POST /v1/embeddings': about('models', 'Embed texts', { description: OPENAI }),
  'GET /v1/models': about('models', 'List models, aliases and adapters'),
  'POST /tokenize': about('models', 'Turn a text into tokens'),
  'POST /detokenize': about('models', 'Turn tokens into a text'),
  'GET /api/proxy/nodes': about('nodes', 'See the nodes behind the proxy'),
  'GET /api/proxy/queue': about('nodes', 'See who waits for a node'),
  'POST /api/proxy/nodes/{name}/drain': about('nodes', 'Send a node no more requests'),
  'POST /api/proxy/nodes/{name}/undrain': about('nodes', 'Send a node requests again'),
  'GET /api/proxy/adapters': about('nodes', 'List the adapters that nodes should have, and which have them'),
  'POST /api/proxy/adapters': about('nodes', 'Announce an adapter'),
  'PUT /api/proxy/adapters/{id}/weights': about('nodes', 'Upload the weights of an adapter'),
  'DELETE /api/proxy/adapters/{id}': about('nodes', 'Take an adapter off the nodes'),
  'GET /api/proxy/usage': about('nodes', 'Read tokens by day, key, project and model', {
    query: { from: 'A day, 2026-11-21.', to: 'A day.', key: 'For operators.', project: 'One project.', format: 'csv.' },
  }),
  'GET /api/proxy/metrics': about('nodes', 'Metrics of the proxy for Prometheus'),
}
