// How an environment is found and made from its id and args. A loader is one folder's front door: its card, its knobs,
// and what they make. Ids of the Python counterparts and their spellings are taken too.

import type { z } from 'zod'
import type { Environment } from './environment.ts'
import type { Message } from './messages.ts'
import { nearest } from './similarity.ts'

/** What runs at full size, on a cluster, under the same name. */
export interface PythonCounterpart {
  /** Id on the Environments Hub. */
  id: string
  version: string
  /** Our knobs and data beside theirs: what is asked differently there; one sentence each. */
  differences: string[]
  /** Knobs of ours that go along as arguments of the same name and meaning; none unless told. */
  knobs?: string[]
}

/** Rows from which a bundled model takes its habits before any reinforcement. */
export interface Demonstrations {
  /** The row at a position of an endless order; a pure function of (args, seed, position). */
  draw(seed: number, position: number): Demonstration
}

export interface Demonstration {
  prompt: Message[]
  completion: Message[]
  /** Which behaviour of the mixture it shows. */
  habit: string
}

export interface Loader<Knobs extends z.ZodObject, Made> {
  knobs: Knobs
  /** Args as `knobs` has parsed them. */
  load(args: z.output<Knobs>): Made | Promise<Made>
}

export interface EnvironmentLoader<Knobs extends z.ZodObject = z.ZodObject> extends Loader<Knobs, Environment> {
  id: string
  title: string
  summary: string
  /** Where its data comes from and under which licence. */
  data: string
  python: PythonCounterpart | null
  /** The cold-start text that belongs to it, where there is one. */
  demonstrations?: Loader<z.ZodObject, Demonstrations>
}

export class EnvironmentError extends Error {}

/** The loader of an id: `reverse-text`, `reverse_text`, `owner/reverse-text` and any of these with `@version`. */
export function findEnvironment(id: string, loaders: readonly EnvironmentLoader[]): EnvironmentLoader {
  const plain = (name: string) => name.replace(/@.*$/, '').replace(/_/g, '-').toLowerCase()
  const found = loaders.find((loader) =>
    [loader.id, loader.python?.id].some((known) => known && plain(known) === plain(id)),
  )
  if (found) return found
  const known = loaders.map((loader) => loader.id)
  const near = nearest(plain(id).replace(/^.*\//, ''), known)
  const list = known.length === 0 ? 'None is known here.' : `Known here: ${known.join(', ')}.`
  throw new EnvironmentError(
    `No environment is called "${id}".${near === null ? '' : ` Did you mean "${near}"?`} ${list}`,
  )
}

/** Args checked against the knobs, defaults filled in. Throws one sentence per problem. */
export function parseArgs<Knobs extends z.ZodObject>(name: string, knobs: Knobs, args: unknown): z.output<Knobs> {
  const parsed = knobs.safeParse(args ?? {})
  if (parsed.success) return parsed.data
  const known = Object.keys(knobs.shape)
  const problems = parsed.error.issues.flatMap((issue) => {
    if (issue.code !== 'unrecognized_keys') return [`${issue.path.join('.') || 'args'}: ${issue.message}.`]
    return issue.keys.map((key) => {
      const near = nearest(key, known)
      return `"${key}" is not one of its args${near === null ? '' : `; did you mean "${near}"?`} It has ${known.join(', ')}.`
    })
  })
  throw new EnvironmentError(problems.map((problem) => `The args of ${name} cannot be used: ${problem}`).join('\n'))
}

export async function openEnvironment(
  id: string,
  args: unknown,
  loaders: readonly EnvironmentLoader[],
): Promise<Environment> {
  const loader = findEnvironment(id, loaders)
  return loader.load(parseArgs(loader.id, loader.knobs, args))
}

export async function openDemonstrations(
  id: string,
  args: unknown,
  loaders: readonly EnvironmentLoader[],
): Promise<Demonstrations> {
  const { id: name, demonstrations } = findEnvironment(id, loaders)
  if (!demonstrations) throw new EnvironmentError(`${name} has no demonstrations, so no model can be pretrained on it.`)
  return demonstrations.load(parseArgs(`${name}'s demonstrations`, demonstrations.knobs, args))
}
