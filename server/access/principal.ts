// Who asks, as access has found out, and what that allows. Knows no request and no database.

export const SCOPES = ['infer', 'runs:read', 'runs:write', 'operator'] as const

/**
 * `infer`: models answer. `runs:read`: see runs of the project. `runs:write`: start and change them, upload secrets.
 * `operator`: everything, in every project; keys, nodes, the audit log.
 */
export type Scope = (typeof SCOPES)[number]

export interface Principal {
  /** The name of a key, never the key itself: unique on this server, also among keys that are gone. */
  key: string
  project: string
  /** With all that they imply: an operator has every scope, and who writes runs reads them. */
  scopes: readonly Scope[]
  /** A key of its own, the cookie of a page, or a program of this machine that can read the server's data folder. */
  via: 'key' | 'session' | 'machine'
  /** Aborts when the key is revoked or expires, or the page signs out: an answer that is still open ends with it. */
  ended: AbortSignal
}

/** The project of everybody who was not given another. */
export const DEFAULT_PROJECT = 'default'

/** What stands for the owner of this machine: no key may take these names. */
export const BROWSER = 'browser'
export const THIS_MACHINE = 'this-machine'

const IMPLIED: Partial<Record<Scope, readonly Scope[]>> = { operator: SCOPES, 'runs:write': ['runs:read'] }

/** The scopes and what they imply, in the order of SCOPES. */
export function implied(scopes: readonly Scope[]): Scope[] {
  const all = new Set(scopes.flatMap((scope) => [scope, ...(IMPLIED[scope] ?? [])]))
  return SCOPES.filter((scope) => all.has(scope))
}

export function allows({ scopes }: Pick<Principal, 'scopes'>, scope: Scope): boolean {
  return scopes.includes(scope)
}

/** Names of keys, projects and secret sets. */
export const SLUG = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
export const SLUG_SENTENCE =
  'letters, digits, dots, dashes and underscores, beginning with a letter or digit, 64 at most'

/** A request that access does not let through, with the sentence for whoever asked. */
export class Denied extends Error {
  constructor(
    readonly status: 401 | 403 | 404 | 421,
    sentence: string,
  ) {
    super(sentence)
  }
}
