// Opens the proxy of a server: its rows in the store, its adapters' files in the store's folder, its nodes from
// server.toml and those that the server brings along.

import { join } from 'node:path'
import type { Store } from '../store/open.ts'
import { AdapterDesk } from './adapters/desk.ts'
import type { ProxyConfig } from './config.ts'
import type { NodeSpec } from './node.ts'
import { ModelProxy } from './proxy.ts'
import { StoredAdapters, StoredUsage } from './store.ts'

export interface ProxySetup {
  store: Store
  config: ProxyConfig
  nodes: readonly NodeSpec[]
}

export async function openProxy({ store, config, nodes }: ProxySetup): Promise<ModelProxy> {
  const folder = join(store.folder, 'adapters')
  const adapters = await AdapterDesk.open(new StoredAdapters(store.db), folder, config.limits.adapter_bytes)
  return new ModelProxy({ config, nodes, usage: new StoredUsage(store.db), adapters })
}
