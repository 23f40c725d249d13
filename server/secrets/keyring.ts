// The keys that seal secrets, from a file or an environment variable: 32 bytes each, as base64, one a line or separated by
// commas. The first seals, all of them open: that is how one takes the place of another.

import { createHash, randomBytes } from 'node:crypto'
import { chmod, mkdir, open, readFile, rename, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

export interface SealingKey {
  /** Tells keys apart, and tells nothing of them. */
  id: string
  bytes: Buffer
}

export type KeySource = { file: string } | { variable: string }

const BYTES = 32

/** Where keys come from, in words: for sentences. */
export const nameOf = (source: KeySource) => ('file' in source ? source.file : `the variable ${source.variable}`)

/** The keys of a source; none where there is no file or variable. Throws a sentence for what is no key. */
export async function readKeys(source: KeySource): Promise<SealingKey[]> {
  const text = 'file' in source ? await readPrivate(source.file) : process.env[source.variable]
  if (text === undefined || text === null) return []
  const keys = text
    .split(/[\s,]+/)
    .filter((part) => part !== '')
    .map((part) => Buffer.from(part, 'base64'))
  if (keys.length === 0 || keys.some(({ length }) => length !== BYTES))
    throw new Error(
      `${nameOf(source)} holds no key for secrets: expected ${BYTES} random bytes as base64, one key a line; \`openssl rand -base64 32\` makes one.`,
    )
  return keys.map((bytes) => ({ id: createHash('sha256').update(bytes).digest('hex').slice(0, 16), bytes }))
}

export function newKey(): SealingKey {
  const bytes = randomBytes(BYTES)
  return { id: createHash('sha256').update(bytes).digest('hex').slice(0, 16), bytes }
}

/** Writes a key file for this user alone: whole or not at all. */
export async function writeKeys(file: string, keys: readonly SealingKey[]): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const aside = `${file}.${process.pid}.new`
  const handle = await open(aside, 'w', 0o600)
  try {
    await handle.writeFile(keys.map(({ bytes }) => `${bytes.toString('base64')}\n`).join(''))
    await handle.sync()
  } finally {
    await handle.close()
  }
  await chmod(aside, 0o600)
  await rename(aside, file)
}

async function readPrivate(file: string): Promise<string | null> {
  try {
    const { mode } = await stat(file)
    if (process.platform !== 'win32' && mode & 0o077)
      throw new Error(
        `${file} can be read by others on this machine (mode ${(mode & 0o777).toString(8)}): chmod 600 it.`,
      )
    return await readFile(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}
