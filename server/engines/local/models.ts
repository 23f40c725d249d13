// Which models a run on this machine may name. A name must not reach what is not a model: folders only where the operator
// has said so, and hubs of others only from this machine itself.

import { existsSync, readdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { RunConfig } from '../../../configs/schema.ts'
import { models as known } from '../../../models/index.ts'

export interface AllowedModels {
  /** The folder of package.json. */
  root: string
  /** Names and folders that the operator has added. */
  models: string[]
  /** Whether this server is reached from this machine alone. */
  loopback: boolean
}

const HUB_ID = /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*$/

/** Sentences for what keeps the model of a config from being run here. */
export function modelRefusals(config: RunConfig, { root, models, loopback }: AllowedModels): string[] {
  const { model } = config
  const refusals: string[] = []
  const bundled = readdirSync(join(root, 'models')).filter((name) =>
    existsSync(join(root, 'models', name, 'config.json')),
  )
  const hub = known.filter(({ bundled }) => !bundled).map(({ id }) => id)
  const takes = [...bundled, ...models, ...hub].includes(model) || (loopback && HUB_ID.test(model))
  if (!takes) {
    const others = loopback ? 'any of the hub by owner/name' : hub.join(', ')
    refusals.push(
      `model = "${model}": this server computes ${[...bundled, ...models, others].join(', ')}; choose one of them.`,
    )
  }
  if (config.browser.hub !== null && !loopback)
    refusals.push(
      `browser.hub = "${config.browser.hub}": a server that others can reach fetches models from its own hub alone; leave it out.`,
    )
  return refusals
}

/** Where the server's own account keeps models of a hub, so that each is fetched once; no token goes along. */
export function hubVariables(): Record<string, string> {
  const { HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HF_ENDPOINT } = process.env
  const home = HF_HOME || join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'huggingface')
  const cache = HF_HUB_CACHE || HUGGINGFACE_HUB_CACHE || join(home, 'hub')
  return { HF_HUB_CACHE: cache, ...(HF_ENDPOINT && { HF_ENDPOINT }) }
}
