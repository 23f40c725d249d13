// What a run in this browser is called.

import type { RunConfig } from '../configs/schema.ts'

/** `reverse-text-2026-11-21-14.05.09-k3f`: readable, and sorted by time among runs of one name. */
export function newRunId(config: RunConfig, recipe: string | undefined): string {
  const now = new Date(Date.now() - new Date().getTimezoneOffset() * 60_000).toISOString()
  const random = Math.random().toString(36).slice(2, 5)
  return `${runName(config, recipe)}-${now.slice(0, 10)}-${now.slice(11, 19).replaceAll(':', '.')}-${random}`
}

/** The config's own name, else its recipe's, else its environment's, in letters, digits and dashes. */
export function runName(config: RunConfig, recipe: string | undefined): string {
  const name = config.name ?? recipe?.split('/').at(-1) ?? config.env[0]?.id ?? 'run'
  return name.toLowerCase().replace(/[^a-z0-9]+/g, '-')
}
