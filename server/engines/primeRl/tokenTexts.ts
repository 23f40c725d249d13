// What the ids of a trace spell, by the tokenizer of the model that was trained: beside a bundled model, in a folder that
// the config names, or in the hub's cache on the shared disk. Nothing is fetched.

import { readdir, readFile } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import type { RunConfig } from '../../../configs/schema.ts'
import { createTokenizer } from '../../../workers/policy/tokenizer.ts'
import type { RunLayout } from './layout.ts'

/** Each id's own text. */
export type TokenTexts = (ids: number[]) => string[]

/** A vocabulary takes a moment to read and some megabytes to hold. */
const MOST_HELD = 4
const held = new Map<string, Promise<TokenTexts | null>>()

/** @param environment of every job, by the operator @returns null where no tokenizer can be read from here */
export async function tokenTexts(
  { model }: Pick<RunConfig, 'model'>,
  layout: RunLayout,
  environment: Record<string, string> = {},
): Promise<TokenTexts | null> {
  for (const folder of [layout.model, ...(isAbsolute(model) ? [model] : []), ...(await cached(model, environment))]) {
    const texts = await read(folder)
    if (texts) return texts
  }
  return null
}

/** The hub's cache, as HF_HUB_CACHE or HF_HOME of the jobs names it: snapshots of the model. */
async function cached(model: string, { HF_HUB_CACHE, HF_HOME }: Record<string, string>): Promise<string[]> {
  const hub = HF_HUB_CACHE ?? (HF_HOME === undefined ? undefined : join(HF_HOME, 'hub'))
  if (hub === undefined || !/^[\w.-]+\/[\w.-]+$/.test(model)) return []
  const snapshots = join(hub, `models--${model.replace('/', '--')}`, 'snapshots')
  const names = await readdir(snapshots).catch(() => [] as string[])
  return names.sort().map((name) => join(snapshots, name))
}

async function read(folder: string): Promise<TokenTexts | null> {
  const known = held.get(folder)
  if (known) return known
  const texts = opened(folder)
  held.set(folder, texts)
  if (held.size > MOST_HELD) held.delete(held.keys().next().value as string)
  // What is not there yet may come.
  if ((await texts) === null) held.delete(folder)
  return texts
}

async function opened(folder: string): Promise<TokenTexts | null> {
  const json = async (name: string) => JSON.parse(await readFile(join(folder, name), 'utf8')) as object
  try {
    const tokenizer = createTokenizer(
      await json('tokenizer.json'),
      await json('tokenizer_config.json').catch(() => ({})),
    )
    return (ids) => tokenizer.tokens(ids)
  } catch {
    return null
  }
}
