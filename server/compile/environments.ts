// Environments at full size run on the cluster, as Python packages: which package stands for which id, and what of its
// arguments goes along. Runs no environment and installs nothing.

import { isTable, type Table } from '../../configs/path.ts'
import { EnvironmentError, environments, findEnvironment } from '../../environments/index.ts'
import type { EnvironmentLoader, PythonCounterpart } from '../../environments/loader.ts'
import type { Outcome } from './target.ts'

/** An environment as another program may be told of it. */
export interface Counterpart {
  id: string
  args: Table
  /** What to say about it; a refusal means that there is none. */
  outcomes: Outcome[]
}

/** `owner/name`, or the name of a package that is installed there. */
const HUB = /^[^/\s]+\/[^/\s]+$/

/** `path` is where the entry stands in ours: `env[0]`. */
export function counterpartOf(env: { id: string; args: Table }, path: string, loaders = environments): Counterpart {
  const loader = bundled(env.id, loaders)
  if (!loader) return elsewhere(env, path)
  if (!loader.python) return refused(env, path)
  return translated(env, path, loader, loader.python)
}

// A TypeScript environment can go along once it is packed as a verifiers package; here is where that package's id and
// arguments would be given back.
function refused({ id, args }: { id: string; args: Table }, path: string): Counterpart {
  const why = `${path}.id = ${JSON.stringify(id)} is an environment in TypeScript without a counterpart in Python, and a full-size run cannot load it. Train it here, or write the same task for verifiers.`
  return { id, args, outcomes: [{ act: 'refuse', why, at: `${path}.id` }] }
}

function elsewhere({ id, args }: { id: string; args: Table }, path: string): Counterpart {
  const [name, version] = id.split('@')
  const from = HUB.test(name)
    ? `${id} comes from the Environments Hub and has to be installed on the cluster first${version ? '' : '; its version is not fixed here, so write owner/name@version to repeat the run'}.`
    : `${id} is none of the environments here and no id of the Environments Hub; the cluster needs a Python package of that name.`
  const act = HUB.test(name) ? 'note' : 'warn'
  return { id, args, outcomes: [{ act, why: `${path}.id: ${from}`, at: `${path}.id` }] }
}

function translated(
  { id, args }: { id: string; args: Table },
  path: string,
  loader: EnvironmentLoader,
  python: PythonCounterpart,
): Counterpart {
  const [base, version = python.version] = python.id.split('@')
  const outcomes: Outcome[] = []
  const same = id === base
  const differs = python.differences.length > 0 ? ` What differs: ${python.differences.join(' ')}` : ''
  outcomes.push({
    act: 'note',
    why: `${path}.id = ${JSON.stringify(id)} is the Python package ${base}, version ${version}, at full size.${differs}`,
    at: `${path}.id`,
    also: same ? [] : [`${path}.id`],
  })
  const known = ownKnobs(loader)
  const there = new Set(python.knobs ?? [])
  const kept: Table = {}
  for (const [key, value] of Object.entries(args)) {
    if (there.has(key) || !known.has(key)) kept[key] = value
    else {
      const at = `${path}.args.${key}`
      outcomes.push({ act: 'warn', why: `${at} cannot go along: ${base} has no such argument.`, at, also: [at] })
    }
  }
  return { id: base, args: kept, outcomes }
}

const ownKnobs = (loader: EnvironmentLoader): Set<string> =>
  new Set(isTable(loader.knobs.shape) ? Object.keys(loader.knobs.shape) : Object.keys(loader.knobs.shape ?? {}))

function bundled(id: string, loaders: readonly EnvironmentLoader[]): EnvironmentLoader | null {
  try {
    return findEnvironment(id, loaders)
  } catch (error) {
    if (error instanceof EnvironmentError) return null
    throw error
  }
}
