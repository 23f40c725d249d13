// What a name in a request means: a model, an alias of one, or an adapter of the caller's project.

import type { Node } from './node.ts'

/** Names under which nodes serve adapters: project, name, version and eight digits of a hash. */
export const SERVED_NAME = /^[\w-]+\.[\w-]+\.v\d+\.[0-9a-f]{8}$/

/** An adapter that nodes are to serve. */
export interface WantedAdapter {
  project: string
  name: string
  version: number
  /** Unique by content: project, name, version and the beginning of the hash. */
  servedName: string
  baseModel: string
}

export interface Meaning {
  kind: 'model' | 'alias' | 'adapter'
  /** What is sent to a node. */
  servedName: string
}

export interface Names {
  aliases: Record<string, string>
  adapters: readonly WantedAdapter[]
  nodes: readonly Node[]
}

/** Adapters go before models of the same name, since a project chose them; an alias is followed once. */
export function meaningOf(name: string, project: string, names: Names): Meaning | null {
  const own = adapterOf(name, project, names.adapters)
  if (own) return { kind: 'adapter', servedName: own.servedName }
  const alias = Object.hasOwn(names.aliases, name) ? names.aliases[name] : undefined
  if (alias !== undefined) {
    const adapter = adapterOf(alias, project, names.adapters)
    return { kind: 'alias', servedName: adapter?.servedName ?? alias }
  }
  // A served name is a name of ours: one of another project, or of no one any more, does not exist for the caller.
  if (SERVED_NAME.test(name)) return null
  return { kind: 'model', servedName: name }
}

/** `name` is the newest version, `name@2` the second; the served name is taken too. */
function adapterOf(name: string, project: string, adapters: readonly WantedAdapter[]): WantedAdapter | undefined {
  let newest: WantedAdapter | undefined
  for (const adapter of adapters) {
    if (adapter.project !== project) continue
    if (adapter.servedName === name || `${adapter.name}@${adapter.version}` === name) return adapter
    if (adapter.name === name && (!newest || adapter.version > newest.version)) newest = adapter
  }
  return newest
}

export interface ListedModel {
  id: string
  object: 'model'
  created: number
  owned_by: string
  root: string
  parent: string | null
  max_model_len: number | null
  rollout_lab: { kind: Meaning['kind']; nodes: string[] }
}

/** GET /v1/models: what a caller of the project may ask for. */
export function listModels(project: string, names: Names, created: number): ListedModel[] {
  const served = new Map<string, { nodes: string[]; parent: string | null; length: number | null }>()
  for (const node of names.nodes) {
    for (const { id, parent, maxModelLength } of node.models.values()) {
      const one = served.get(id) ?? { nodes: [], parent, length: null }
      one.nodes.push(node.name)
      if (maxModelLength !== null) one.length = Math.min(one.length ?? maxModelLength, maxModelLength)
      served.set(id, one)
    }
  }
  const entry = (id: string, kind: Meaning['kind'], servedName: string, parent?: string): ListedModel => {
    const { nodes = [], length = null, parent: told = null } = served.get(servedName) ?? {}
    return {
      id,
      object: 'model',
      created,
      owned_by: 'rollout-lab',
      root: servedName,
      parent: parent ?? told,
      max_model_len: length,
      rollout_lab: { kind, nodes },
    }
  }
  const own = names.adapters.filter((adapter) => adapter.project === project)
  const adapters = [
    ...new Set(own.map(({ name }) => name)),
    ...own.map(({ name, version }) => `${name}@${version}`),
  ].map((id) => {
    const adapter = adapterOf(id, project, names.adapters)!
    return entry(id, 'adapter', adapter.servedName, adapter.baseModel)
  })
  const taken = new Set(adapters.map(({ id }) => id))
  const aliases = Object.keys(names.aliases)
    .filter((id) => !taken.has(id))
    .map((id) => entry(id, 'alias', meaningOf(id, project, names)!.servedName))
  for (const { id } of aliases) taken.add(id)
  const models = [...served.keys()]
    .filter((id) => !SERVED_NAME.test(id) && !taken.has(id))
    .map((id) => entry(id, 'model', id))
  return [...models, ...aliases, ...adapters]
}
