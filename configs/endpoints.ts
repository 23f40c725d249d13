// endpoints.toml: aliases of OpenAI-compatible endpoints. Rows that share an id are replicas of one model. Keys are names
// of environment variables, never secrets themselves.

import { z } from 'zod'
import type { Check } from './checks.ts'
import { knob, knobsOf } from './knob.ts'
import { type Contract, type Loaded, loadAs, type Refused } from './loading.ts'
import type { Table } from './path.ts'
import { Vocabulary } from './vocabulary.ts'

const group = 'Remote' as const

const CLIENT_TYPES = [
  'openai_chat_completions',
  'openai_completions',
  'openai_responses',
  'anthropic_messages',
  'renderer',
] as const

const row = z.strictObject({
  endpoint_id: knob(z.string().min(1), { label: 'Alias', help: 'What configs and commands call it.', group }),
  model: knob(z.string().min(1), { label: 'Model', help: 'What the server calls it.', group }),
  url: knob(z.url({ protocol: /^https?$/ }), { label: 'Address', help: 'Base address, up to and with /v1.', group }),
  key: knob(
    z
      .string()
      .regex(/^[A-Za-z_][A-Za-z0-9_]*$/)
      .nullable()
      .default(null),
    {
      label: 'Key variable',
      help: 'Name of the environment variable that holds the key; never the key itself. Empty: none is sent.',
      group,
    },
  ),
  type: knob(z.enum(CLIENT_TYPES).default('openai_chat_completions'), {
    label: 'Protocol',
    help: 'How the server is spoken to.',
    group,
  }),
  headers: knob(z.record(z.string(), z.string()).default({}), {
    label: 'Headers',
    help: 'Sent with every request.',
    group,
  }),
})

const endpointsFile = z.strictObject({
  endpoint: knob(z.array(row).default([]), { label: 'Endpoints', help: 'One row for each server.', group }),
})

type EndpointsFile = z.output<typeof endpointsFile>
export type Endpoint = z.output<typeof row>

const CONTRACT: Contract<EndpointsFile> = {
  schema: endpointsFile,
  knobs: knobsOf(endpointsFile),
  vocabulary: new Vocabulary([
    {
      name: 'endpoints.toml',
      renames: {
        'endpoint[].id': 'endpoint[].endpoint_id',
        'endpoint[].api_client_type': 'endpoint[].type',
        'endpoint[].base_url': 'endpoint[].url',
        'endpoint[].api_base_url': 'endpoint[].url',
        'endpoint[].api_key_var': 'endpoint[].key',
      },
      tables: { 'endpoint[].extra_headers': (value, to) => ({ set: { [to('endpoint[].headers')]: value } }) },
    },
  ]),
  check: replicas,
  defaults: () => [],
}

/** From alias to its replicas, in the order of the file. */
export function loadEndpoints(input: string | Table): Loaded<Map<string, Endpoint[]>> | Refused {
  const loaded = loadAs(CONTRACT, input)
  if (loaded.problems) return loaded
  const byAlias = new Map<string, Endpoint[]>()
  for (const endpoint of loaded.config.endpoint) {
    byAlias.set(endpoint.endpoint_id, [...(byAlias.get(endpoint.endpoint_id) ?? []), endpoint])
  }
  return { config: byAlias, notes: loaded.notes }
}

// Replicas answer for one another, so they serve one model in one protocol.
function replicas({ endpoint }: EndpointsFile): Check[] {
  const found: Check[] = []
  const first = new Map<string, Endpoint>()
  for (const [i, each] of endpoint.entries()) {
    const other = first.get(each.endpoint_id)
    if (!other) first.set(each.endpoint_id, each)
    for (const key of ['model', 'type'] as const) {
      if (other && other[key] !== each[key]) {
        const sentence = `Rows called ${each.endpoint_id} are replicas of one another, but their ${key} differs: ${other[key]} and ${each[key]}; give one of them another endpoint_id.`
        found.push({ path: `endpoint[${i}].${key}`, sentence })
      }
    }
  }
  return found
}
