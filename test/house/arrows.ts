// The arrows of the house as one table: which room may import which. Read by arrows.test.ts.

import type { Import } from './imports.ts'

export interface Room {
  name: string
  files: RegExp
  /** Other rooms whose code it may use. Its own files it always may. */
  rooms: string[]
  /** Rooms of which it may know the types alone. */
  types?: string[]
  packages?: RegExp
}

const TFJS = /^@tensorflow\//

const WORKERS = [
  ...[
    'protocol',
    'random',
    'rl',
    'gpu',
    'policy',
    'hub',
    'storage',
    'environment side',
    'jobs',
    'completions',
    'trainer',
  ],
  'hosts and doors',
]

/** Every file of the house is in one of these. */
export const ROOMS: Room[] = [
  { name: 'environments', files: /^environments\//, rooms: [], packages: /^zod$/ },
  { name: 'architecture', files: /^models\/architecture\.ts$/, rooms: [] },
  { name: 'models', files: /^models\/(?!architecture\.ts$)/, rooms: ['architecture'] },
  {
    name: 'configs',
    files: /^configs\//,
    rooms: ['environments', 'architecture', 'models'],
    packages: /^(zod|smol-toml)$/,
  },

  { name: 'protocol', files: /^workers\/(completions\/)?protocol\.ts$/, rooms: [] },
  { name: 'random', files: /^workers\/random\.ts$/, rooms: [] },
  { name: 'rl', files: /^workers\/rl\//, rooms: [] },
  { name: 'gpu', files: /^workers\/gpu\/(?!node\.ts$)/, rooms: [], packages: TFJS },
  {
    name: 'policy',
    files: /^workers\/policy\//,
    rooms: ['architecture', 'gpu', 'random'],
    packages: /^@huggingface\//,
  },
  {
    name: 'hub',
    files: /^workers\/hub\//,
    rooms: ['policy', 'storage'],
    packages: /^(hash-wasm|idb|node:.*)$/,
  },
  {
    name: 'storage',
    files: /^workers\/storage\//,
    rooms: ['protocol'],
    packages: /^(idb|smol-toml|node:.*)$/,
  },
  { name: 'environment side', files: /^workers\/environment\w*\.ts$/, rooms: ['environments', 'protocol'] },
  {
    name: 'jobs',
    files: /^workers\/(step|sft|evaluate|gepa)(\.ts$|\/)/,
    rooms: ['random', 'rl', 'policy', 'environments'],
    types: ['protocol'],
  },
  {
    name: 'completions',
    files: /^workers\/completions\/(?!protocol\.ts$)/,
    rooms: ['random', 'gpu', 'policy'],
    types: ['protocol'],
  },
  {
    name: 'trainer',
    files: /^workers\/trainer(\.ts$|\/)/,
    rooms: ['random', 'rl', 'policy', 'environments', 'jobs', 'storage', 'protocol'],
  },
  {
    name: 'hosts and doors',
    files: /^workers\/(host\.\w+\.ts|host\/.*|\w+\.worker\.ts|gpu\/node\.ts)$/,
    rooms: ['configs', 'environments', 'architecture', 'models', ...WORKERS],
    packages: /^(@tensorflow\/.*|comlink(\/.*)?|webgpu|node:.*)$/,
  },

  {
    name: 'server',
    files: /^server\//,
    rooms: ['configs', 'environments', 'models', 'protocol'],
    packages:
      /^(hono(\/.*)?|@hono\/.*|zod|kysely|s3mini|libsql|pg|ulid|prom-client|pino|hono-openapi|undici|jose|node:.*)$/,
  },
  {
    name: 'cli',
    files: /^cli\//,
    rooms: ['configs', 'environments', 'models', ...WORKERS],
    types: ['server'],
    packages: /^(commander|eventsource-parser(\/.*)?|smol-toml|zod|node:.*)$/,
  },
  {
    name: 'web',
    files: /^web\//,
    rooms: ['configs', 'protocol'],
    // The shapes of what the server answers, and of the runs that storage keeps.
    types: ['server', 'storage'],
    packages: /^(svelte(\/.*)?|comlink|openai|hono\/client|@codemirror\/.*|@lezer\/.*)$/,
  },
]

/** What every room of `workers/` may know by type: the config and the messages. */
const EVERYWHERE_IN_WORKERS = /^(configs\/schema|environments\/messages)\.ts$/

/** Single doors in a wall: a file, what it may import beyond its room's arrows, and why. */
const DOORS: { from: RegExp; to: RegExp }[] = [
  // A page reaches a worker through this file alone.
  { from: /^web\/connect\.ts$/, to: /^workers\/host\.browser\.ts$/ },
  // The table of metrics and the diagnosis: plain functions of the numbers that events carry.
  { from: /^web\//, to: /^workers\/rl\/(metrics|diagnosis)\.ts$/ },
  // The verbs that are about a server.
  { from: /^cli\/(serve|submit|runs|backup|restore)\.ts$/, to: /^server\// },
  // Compiling asks nothing of a server: it is a function of the file.
  { from: /^cli\/compile\.ts$/, to: /^server\/compile\// },
  // What a metric means and what a run suffers from: plain functions of events, the same in a chart, a test and a log.
  { from: /^web\//, to: /^workers\/rl\/(metrics|diagnosis)\.ts$/ },
  // What prime-rl calls a metric, and what it is called here: one table.
  { from: /^server\/engines\/primeRl\/metricNames\.ts$/, to: /^workers\/rl\/metrics\.ts$/ },
  // The algorithm's own text is shown beside the run.
  { from: /^web\//, to: /^workers\/step\.ts\?raw$/ },
  // What the ids of a cluster's rollouts spell: the tokenizer, without the policy.
  { from: /^server\/engines\/primeRl\/tokenTexts\.ts$/, to: /^workers\/policy\/tokenizer\.ts$/ },
  // Our own model server answers by a thread of Node.
  { from: /^server\/inference\/\w+\.ts$/, to: /^workers\/host\.node\.ts$/ },
  // The local engine runs the workers in Node.
  { from: /^server\/engines\/local\//, to: /^workers\/(host\.node|storage\/node)\.ts$/ },
]

export function roomOf(file: string): Room | undefined {
  return ROOMS.find(({ files }) => files.test(file))
}

/** A sentence for an import against the arrows, null for one along them. */
export function complaint(file: string, imported: Import): string | null {
  const room = roomOf(file)
  if (!room) return `${file} is in no room of the house.`
  if (imported.file === null) {
    if (imported.typeOnly || room.packages?.test(imported.specifier)) return null
    return `${file} (${room.name}) imports the package ${imported.specifier}.`
  }
  const asked = imported.file + (imported.specifier.match(/\?.*$/)?.[0] ?? '')
  if (DOORS.some(({ from, to }) => from.test(file) && to.test(asked))) return null
  if (imported.typeOnly && file.startsWith('workers/') && EVERYWHERE_IN_WORKERS.test(imported.file)) return null
  const other = roomOf(imported.file)
  if (other === room || (other && room.rooms.includes(other.name))) return null
  if (imported.typeOnly && other && room.types?.includes(other.name)) return null
  return `${file} (${room.name}) imports ${imported.specifier} (${other?.name ?? 'no room'})${imported.typeOnly ? ' by type' : ''}.`
}
