// AES-256-GCM over the variables of one set. What the set is called and how often it was written is sealed with it, so
// that a row cannot be put in the place of another or of a later one.

import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { SealingKey } from './keyring.ts'

const NONCE_BYTES = 12
const TAG_BYTES = 16

export interface Label {
  project: string
  name: string
  version: number
}

export interface Sealed {
  /** Base64. */
  nonce: string
  /** Base64: ciphertext, then tag. */
  sealed: string
}

export function seal(text: string, label: Label, { bytes }: SealingKey): Sealed {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', bytes, nonce).setAAD(aadOf(label))
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
  return { nonce: nonce.toString('base64'), sealed: sealed.toString('base64') }
}

/** Throws where the key is another, or the row was changed. */
export function unseal({ nonce, sealed }: Sealed, label: Label, { bytes }: SealingKey): string {
  const all = Buffer.from(sealed, 'base64')
  const decipher = createDecipheriv('aes-256-gcm', bytes, Buffer.from(nonce, 'base64'), { authTagLength: TAG_BYTES })
    .setAAD(aadOf(label))
    .setAuthTag(all.subarray(-TAG_BYTES))
  return Buffer.concat([decipher.update(all.subarray(0, -TAG_BYTES)), decipher.final()]).toString('utf8')
}

const aadOf = ({ project, name, version }: Label) => Buffer.from(JSON.stringify([project, name, version]))
