// server.toml: what an operator decides about a server. Each room says what its table holds; here they are one file, with
// a sentence, line and column for every mistake. Paths in it are from the folder of the file.

import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { z } from 'zod'
import { formatPath, isTable, type Path } from '../configs/path.ts'
import { inOrder, lineOf, type Problem } from '../configs/report.ts'
import { sentenceOf } from '../configs/sentences.ts'
import { placeOf, readSource, SourceError } from '../configs/source.ts'
import { accessSchema, reachOf, serverSchema } from './access/config.ts'
import { raySchema } from './engines/ray/config.ts'
import { slurmSchema } from './engines/slurm/config.ts'
import { logSchema } from './observe/config.ts'
import { nodeSchema, proxySchema } from './proxy/config.ts'
import { localSchema, runsSchema } from './runs/config.ts'
import { secretsSchema } from './secrets/config.ts'
import { artifactsSchema } from './store/artifacts/config.ts'
import { storeSchema } from './store/config.ts'

export const configSchema = z
  .strictObject({
    server: serverSchema.prefault({}),
    access: accessSchema.prefault({}),
    store: storeSchema.prefault({}),
    artifacts: artifactsSchema.optional(),
    secrets: secretsSchema.prefault({}),
    log: logSchema.prefault({}),
    runs: runsSchema.prefault({}),
    local: localSchema.prefault({}),
    slurm: slurmSchema.optional(),
    ray: raySchema.optional(),
    proxy: proxySchema.prefault({}),
    node: z.array(nodeSchema).default([]),
  })
  .superRefine(({ node }, context) => {
    node.forEach(({ name }, at) => {
      if (node.findIndex((other) => other.name === name) === at) return
      context.addIssue({
        code: 'custom',
        path: ['node', at, 'name'],
        message: `another [[node]] is called ${name} too`,
      })
    })
  })

export type ServerConfig = z.output<typeof configSchema>

/** Every default: a server of this machine alone. */
export const DEFAULT_CONFIG: ServerConfig = configSchema.parse({})

/** Parts that may change while the server runs; all others wait for a restart. */
const CHANGEABLE = [
  ...['access', 'server.hosts', 'server.public_url', 'server.shutdown_seconds', 'log.level'],
  ...['proxy', 'node'],
]

export type LoadedConfig = { config: ServerConfig; problems?: undefined } | { config?: undefined; problems: Problem[] }

export function loadConfig(text: string): LoadedConfig {
  let source: ReturnType<typeof readSource>
  try {
    source = readSource(text, 'toml')
  } catch (error) {
    if (!(error instanceof SourceError)) throw error
    return { problems: [{ sentence: `This is not TOML: ${error.message}.`, path: '', ...placeOf(text, error.offset) }] }
  }
  const parsed = configSchema.safeParse(source.value)
  if (parsed.success) return { config: parsed.data }
  const name = (path: Path) => formatPath(path) || 'server.toml'
  const problems = parsed.error.issues
    .flatMap((issue) => sentenceOf(issue, source.value, name, keysAt))
    .map(({ path, what, sentence }): Problem => {
      const place = source.place(path, what)
      return { sentence, path: formatPath(path), line: place?.line ?? null, column: place?.column ?? null }
    })
  return { problems: inOrder(problems) }
}

/** Reads a file; throws one sentence a line for what is wrong with it. */
export function readConfig(file: string): ServerConfig {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    throw new Error(
      `${file} cannot be read: ${(error as Error).message}. \`rollout-lab serve --init\` writes one to begin with.`,
    )
  }
  const { config, problems } = loadConfig(text)
  if (problems) throw new Error(problems.map((problem) => lineOf(problem, file)).join('\n'))
  return withPaths(config, dirname(resolve(file)))
}

/** What a running server takes of a new config, and the dotted paths that wait for its restart. */
export function takeChanges(now: ServerConfig, wanted: ServerConfig): { config: ServerConfig; waiting: string[] } {
  const waiting: string[] = []
  const take = (old: unknown, other: unknown, path: string): unknown => {
    if (CHANGEABLE.includes(path)) return other
    if (isTable(old) && isTable(other)) {
      const keys = new Set([...Object.keys(old), ...Object.keys(other)])
      return Object.fromEntries(
        [...keys].map((key) => [key, take(old[key], other[key], path === '' ? key : `${path}.${key}`)]),
      )
    }
    if (JSON.stringify(old) !== JSON.stringify(other)) waiting.push(path)
    return old
  }
  const config = take(now, wanted, '') as ServerConfig
  // A server that was started for this machine alone has no keys asked for, and runs what it would not run for others.
  if (reachOf(config.server) !== reachOf(now.server))
    return { config: { ...config, server: now.server }, waiting: [...waiting, 'server'] }
  return { config, waiting }
}

function withPaths(config: ServerConfig, folder: string): ServerConfig {
  const at = (path: string | undefined) => (path === undefined ? undefined : resolve(folder, path))
  return {
    ...config,
    store: { ...config.store, folder: resolve(folder, config.store.folder ?? 'data') },
    secrets: { ...config.secrets, key_file: at(config.secrets.key_file) },
    log: { ...config.log, file: at(config.log.file) },
    local: { ...config.local, models: config.local.models.map((path) => resolve(folder, path)) },
    slurm: config.slurm && { ...config.slurm, key_file: resolve(folder, config.slurm.key_file) },
    ray: config.ray && { ...config.ray, token_file: at(config.ray.token_file) },
    node: config.node.map((node) =>
      node.adapter_root
        ? { ...node, adapter_root: { ...node.adapter_root, server: resolve(folder, node.adapter_root.server) } }
        : node,
    ),
  }
}

/** The keys that a table may have. */
function keysAt(path: Path): string[] {
  let schema: z.core.$ZodType | undefined = configSchema
  for (const part of path) schema = typeof part === 'number' ? elementOf(schema) : shapeOf(schema)?.[part]
  return Object.keys(shapeOf(schema) ?? {})
}

type Inner = z.core.$ZodTypeDef & {
  innerType?: z.core.$ZodType
  shape?: Record<string, z.core.$ZodType>
  element?: z.core.$ZodType
}

function defOf(schema: z.core.$ZodType | undefined): Inner | undefined {
  const def = schema?._zod.def as Inner | undefined
  return def?.innerType ? defOf(def.innerType) : def
}

const shapeOf = (schema: z.core.$ZodType | undefined) => defOf(schema)?.shape
const elementOf = (schema: z.core.$ZodType | undefined) => defOf(schema)?.element
