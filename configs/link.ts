// RunConfig <-> the fragment of a URL: a recipe's id, and only what differs from it. Reading a link gives a config or
// problems; it starts nothing, fetches nothing and runs nothing.

import { type Delta, difference, withDifference } from './difference.ts'
import { type Loaded, load, type Refused } from './load.ts'
import { nearest } from './nearest.ts'
import { formatPath, parsePath, type Table } from './path.ts'
import { type RunConfig, runConfig } from './schema.ts'
import { beyondDefaults } from './write.ts'

/** Characters; what longer links meet on the way (chats, mail, QR codes) tends to cut them. */
export const LONGEST_LINK = 8000

export interface LinkRecipe {
  id: string
  text: string
}

export interface Linked extends Loaded<RunConfig> {
  /** null: what differs is counted from the defaults. */
  recipe: string | null
  deltas: Delta[]
}

/** The fragment without its #, or why there is none. */
export function toLink(config: RunConfig, recipe: LinkRecipe | null = null): { link: string } | { sentence: string } {
  const { base, mark } = baseOf(recipe)
  const deltas = difference(base, config)
  const parts = recipe ? [`recipe=${encodeURIComponent(recipe.id).replaceAll('%2F', '/')}~${mark}`] : []
  const link = [...parts, ...deltas.map(writeDelta)].join('&')
  if (link.length <= LONGEST_LINK) return { link }
  return {
    sentence: `A link to this config would take ${link.length} characters, and ${LONGEST_LINK} are the most that arrive safely; share the TOML file instead.`,
  }
}

/** Takes the fragment with or without its #. `find` gives a recipe by its id. */
export function readLink(
  link: string,
  find: (id: string) => LinkRecipe | null,
  known: string[] = [],
): Linked | Refused {
  const text = link.replace(/^#/, '')
  if (text.length > LONGEST_LINK) {
    return refuse(
      `This link has ${text.length} characters; ${LONGEST_LINK} are the most that can be trusted to be whole.`,
    )
  }
  const deltas: Delta[] = []
  let recipe: LinkRecipe | null = null
  let mark = ''
  for (const part of text === '' ? [] : text.split('&')) {
    const [name, value] = halves(part)
    if (name === null || value === null)
      return refuse(`This link is damaged at ${shorten(part)}: it is not name=value.`)
    if (name === 'recipe') {
      const [id, seen] = value.split('~')
      recipe = find(id)
      mark = seen ?? ''
      if (!recipe) {
        const near = nearest(id, known)
        return refuse(
          `This link begins from the recipe ${shorten(id)}, which is not known here${near ? `; did it mean ${near}?` : '.'}`,
        )
      }
      continue
    }
    const delta = readDelta(name, value)
    if (!delta) return refuse(`This link is damaged at ${shorten(part)}: ${shorten(name)} is not a dotted path.`)
    deltas.push(delta)
  }
  const found = baseOf(recipe)
  const loaded = load(beyondDefaults(withDifference(found.base, deltas)))
  if (loaded.problems) return loaded
  if (recipe && mark && mark !== found.mark) {
    loaded.notes.push({
      kind: 'advice',
      warning: true,
      sentence: `The recipe ${recipe.id} has changed since this link was made, so what it leaves out may differ.`,
      path: '',
      line: null,
      column: null,
    })
  }
  return { ...loaded, recipe: recipe?.id ?? null, deltas }
}

function baseOf(recipe: LinkRecipe | null): { base: Table; mark: string } {
  if (!recipe) return { base: runConfig.parse({}) as Table, mark: '' }
  const loaded = load(recipe.text, { format: 'toml' })
  if (loaded.problems)
    throw new Error(`internal: the recipe ${recipe.id} does not load: ${loaded.problems[0].sentence}`)
  return { base: loaded.config as Table, mark: fingerprint(JSON.stringify(loaded.config)) }
}

/** `path=value`; `!path` where the key is gone. */
function writeDelta(delta: Delta): string {
  const path = encodeURIComponent(formatPath(delta.path))
  return 'gone' in delta ? `!${path}` : `${path}=${encodeURIComponent(writeValue(delta.value))}`
}

function readDelta(name: string, value: string): Delta | null {
  const gone = name.startsWith('!')
  const path = parsePath(gone ? name.slice(1) : name)
  if (!path) return null
  return gone ? { path, gone } : { path, value: readValue(value) }
}

// A text that could be taken for JSON is written as JSON, any other as it is.
function writeValue(value: unknown): string {
  if (Object.is(value, -0)) return '-0'
  if (typeof value !== 'string') return JSON.stringify(value)
  const plain = value !== '' && !/\p{Surrogate}/u.test(value) && readValue(value) === value && !value.startsWith('"')
  return plain ? value : JSON.stringify(value)
}

function readValue(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

function halves(part: string): [string | null, string | null] {
  const equals = part.indexOf('=')
  const decode = (text: string) => {
    try {
      return decodeURIComponent(text)
    } catch {
      return null
    }
  }
  if (equals < 0) return part.startsWith('!') ? [decode(part), ''] : [null, null]
  return [decode(part.slice(0, equals)), decode(part.slice(equals + 1))]
}

function refuse(sentence: string): Refused {
  return { problems: [{ sentence, path: '', line: null, column: null }] }
}

function shorten(text: string): string {
  return text.length > 60 ? `${text.slice(0, 60)}…` : text
}

// FNV-1a, 32 bits: enough to notice that a recipe is not the one it was.
function fingerprint(text: string): string {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return (hash >>> 0).toString(16).padStart(8, '0')
}
