// Opens the proxy of a server: its rows in the store, its adapters' files in the store's folder, its nodes from
// server.toml and, among them, this server's own models.

import { basename, join } from 'node:path'
import { type InferenceNode, listenAsNode } from '../inference/listen.ts'
import type { Store } from '../store/open.ts'
import { AdapterDesk } from './adapters/desk.ts'
import { type NodeConfig, nodeSchema, type ProxyConfig } from './config.ts'
import type { NodeSpec } from './node.ts'
import { ModelProxy } from './proxy.ts'
import { StoredAdapters, StoredUsage } from './store.ts'

export interface ProxySetup {
  store: Store
  config: ProxyConfig
  nodes: readonly NodeConfig[]
  own: {
    /** The folder of package.json: bundled models lie in its models/. */
    root: string
    /** Folders of further models, each named by its last part. */
    models: readonly string[]
  }
}

export interface ServerProxy {
  proxy: ModelProxy
  configure(config: ProxyConfig, nodes: readonly NodeConfig[]): void
  /** Requests under way. */
  readonly open: number
  /** Once: a second call waits for the first. */
  close(graceSeconds?: number): Promise<void>
}

const OWN_NODE = 'this-server'
/** What the model server takes at once; more wait in the proxy's fair queue instead of its own. */
const OWN_PLACES = 64

export async function openProxy({ store, config, nodes, own }: ProxySetup): Promise<ServerProxy> {
  const folder = join(store.folder, 'adapters')
  const adapters = await AdapterDesk.open(new StoredAdapters(store.db), folder, config.limits.adapter_bytes)
  const models = Object.fromEntries(own.models.map((path) => [basename(path), path]))
  const node = config.own_models ? await listenAsNode({ root: own.root, models, adapterRoot: folder }) : null
  const withOwn = (given: readonly NodeConfig[]): NodeSpec[] =>
    node && !given.some(({ name }) => name === OWN_NODE) ? [...given, ownNode(node, folder)] : [...given]
  const proxy = new ModelProxy({ config, nodes: withOwn(nodes), usage: new StoredUsage(store.db), adapters })
  let closed: Promise<void> | undefined
  return {
    proxy,
    configure: (next, given) => proxy.configure(next, withOwn(given)),
    get open() {
      return proxy.open
    },
    close(graceSeconds) {
      closed ??= proxy.close(graceSeconds).then(() => node?.close())
      return closed
    },
  }
}

function ownNode({ url, key }: InferenceNode, folder: string): NodeSpec {
  const adapter_root = { server: folder, node: folder }
  return {
    ...nodeSchema.parse({ name: OWN_NODE, url, max_in_flight: OWN_PLACES, max_lora_rank: 256, adapter_root }),
    key,
  }
}
