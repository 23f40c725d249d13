// The texts that open a door: keys, session cookies, one-time links. 256 random bits each, told once; what is kept is
// their SHA-256, so a stolen database opens nothing.

import { createHash, randomBytes } from 'node:crypto'

const PREFIXES = { key: 'rlk_', session: 'rls_', link: 'rlt_' } as const

export type CredentialKind = keyof typeof PREFIXES

const BYTES = 32
const LENGTH = Math.ceil((BYTES * 4) / 3)

export function mint(kind: CredentialKind): string {
  return PREFIXES[kind] + randomBytes(BYTES).toString('base64url')
}

/** Whether a text has the form of one. Says nothing of whether it opens anything. */
export function isCredential(text: string, kind: CredentialKind): boolean {
  const prefix = PREFIXES[kind]
  return text.length === prefix.length + LENGTH && text.startsWith(prefix) && /^[\w-]+$/.test(text.slice(prefix.length))
}

/** SHA-256, hexadecimal. */
export function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** Every text that is or may be one, whole or cut off: what a log must not hold. */
export const CREDENTIAL_TEXT = /\brl[kst]_[\w-]{8,}/g
