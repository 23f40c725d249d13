// How backup and restore are told which store is meant, without a server that runs.

import { resolve } from 'node:path'
import type { Command } from 'commander'
import { dataFolder } from './client.ts'
import { type Context, Refusal } from './verb.ts'

export interface StoreOptions {
  data?: string
  databaseEnv?: string
}

export function withStore(command: Command): Command {
  return command
    .option('--data <folder>', 'the data folder (default: ROLLOUT_LAB_DATA, else data beside package.json)')
    .option('--database-env <variable>', 'a variable that holds the URL of a Postgres database (default: SQLite)')
}

export function storeOf(context: Context, { data, databaseEnv }: StoreOptions): { folder: string; url: string | null } {
  const folder = resolve(data ?? dataFolder(context))
  if (databaseEnv === undefined) return { folder, url: null }
  const url = process.env[databaseEnv]
  if (!url) throw new Refusal(`--database-env names the variable ${databaseEnv}, which is not set.`)
  return { folder, url }
}
