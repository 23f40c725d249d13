// Makes one node serve the wanted adapters and no other of ours, through vLLM's own admin verbs. What the node says that it
// serves decides; a node that has forgotten everything is the usual case.

import { posix } from 'node:path'
import { ask, trouble } from '../ask.ts'
import { SERVED_NAME } from '../names.ts'
import type { Node } from '../node.ts'
import type { AdapterState } from '../views.ts'
import { copyAdapter } from './files.ts'
import type { AdapterRow } from './store.ts'

const TIMEOUT_SECONDS = 60

/** `folder` holds the adapters; `readModels` asks the node what it serves, into `node.models`. */
export async function reconcile(
  node: Node,
  wanted: readonly AdapterRow[],
  folder: string,
  readModels: () => Promise<void>,
): Promise<void> {
  const root = node.config.adapter_root
  const plan = planFor(node, wanted)
  node.adapters = new Map(
    [...plan].map(([row, problem]) => [row.servedName, problem ?? { state: 'loading' as const, reason: null }]),
  )
  const keep = new Set([...plan].filter(([, problem]) => !problem).map(([row]) => row.servedName))
  for (const { id, root: path } of [...node.models.values()]) {
    const ours = SERVED_NAME.test(id) && root !== undefined && path?.startsWith(`${root.node}/`)
    if (ours && !keep.has(id)) await unload(node, id)
  }
  for (const [row, problem] of plan) {
    if (problem || !root) continue
    const path = posix.join(root.node, row.servedName)
    try {
      if (node.models.get(row.servedName)?.root !== path) {
        await copyAdapter(folder, root.server, row.servedName, row.bytes).catch((error: Error) => {
          throw new Unreadable(`it could not be laid into ${root.server}: ${error.message}`)
        })
        if (node.models.has(row.servedName)) await unload(node, row.servedName)
        await load(node, row.servedName, path, readModels)
        node.models.set(row.servedName, { id: row.servedName, root: path, parent: row.baseModel, maxModelLength: null })
      }
      node.adapters.set(row.servedName, { state: 'loaded', reason: null })
    } catch (error) {
      const state: AdapterState = error instanceof Unreadable ? 'no-shared-path' : 'failed'
      node.adapters.set(row.servedName, { state, reason: trouble(error) })
    }
  }
}

/** What is to be loaded, newest first, and why the rest is not. Adapters of other base models are not the node's business. */
function planFor(node: Node, wanted: readonly AdapterRow[]) {
  const plan = new Map<AdapterRow, { state: AdapterState; reason: string } | null>()
  const { adapter_root: root, max_lora_rank: rank, max_adapters: most } = node.config
  let count = 0
  for (const row of [...wanted].sort((a, b) => b.createdAt - a.createdAt)) {
    if (!servesBase(node, row.baseModel)) continue
    if (!root) plan.set(row, { state: 'no-shared-path', reason: 'The node has no adapter_root in server.toml.' })
    else if (row.rank > rank)
      plan.set(row, { state: 'over-limit', reason: `Its rank is ${row.rank}, and the node takes ${rank}.` })
    else if (count >= most) plan.set(row, { state: 'over-limit', reason: `The node takes ${most} adapters.` })
    else {
      count++
      plan.set(row, null)
    }
  }
  return plan
}

export function servesBase({ models }: Node, baseModel: string): boolean {
  if (models.get(baseModel)?.parent === null) return true
  return [...models.values()].some(({ parent, root }) => parent === null && root === baseModel)
}

class Unreadable extends Error {}

async function load(node: Node, name: string, path: string, readModels: () => Promise<void>) {
  const { status, text } = await verb(node, '/v1/load_lora_adapter', { lora_name: name, lora_path: path })
  if (status === 200) return
  if (status === 404) throw new Unreadable(`it cannot see ${path}`)
  if (status === 400 && /already/i.test(text)) {
    await readModels()
    if (node.models.get(name)?.root === path) return
    throw new Error('it serves another adapter under this name')
  }
  throw new Error(`it answered with ${status}: ${sentenceOf(text)}`)
}

async function unload(node: Node, name: string) {
  const { status, text } = await verb(node, '/v1/unload_lora_adapter', { lora_name: name })
  if (status !== 200 && status !== 404) throw new Error(`it did not unload ${name}: ${status} ${sentenceOf(text)}`)
  node.models.delete(name)
}

function verb(node: Node, path: string, body: object) {
  return ask(node.admin, {
    method: 'POST',
    path: node.adminPath + path,
    headers: { 'content-type': 'application/json', ...node.authorization },
    body: JSON.stringify(body),
    timeoutSeconds: TIMEOUT_SECONDS,
  })
}

function sentenceOf(text: string): string {
  try {
    const { error, message, detail } = JSON.parse(text)
    return String(error?.message ?? message ?? detail ?? text).slice(0, 300)
  } catch {
    return text.slice(0, 300)
  }
}
