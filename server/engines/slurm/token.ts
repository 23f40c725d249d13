// Tokens for slurmrestd, made here from the cluster's JWT key. The key signs for any user of the cluster, so it is read
// from a file that only the server may read, and each client signs for one service account alone.

import { readFile, stat } from 'node:fs/promises'
import { SignJWT } from 'jose'

export interface TokenOptions {
  /** The cluster's `jwt_hs256.key`. */
  keyFile: string
  /** The Slurm user that jobs belong to. */
  user: string
  /** Seconds that a token is good for. */
  lifetime?: number
  now?: () => number
}

const LONGEST_LIFE = 600

/** Gives a token that is good for half its life at least; `fresh` asks for a new one. */
export function tokenSource({ keyFile, user, lifetime = 300, now = Date.now }: TokenOptions) {
  if (user === 'root' || user === 'slurm')
    throw new Error(`Jobs cannot belong to ${user}: name a service account of the project in slurm.user.`)
  const life = Math.min(lifetime, LONGEST_LIFE)
  let newest: { token: string; made: number } | null = null
  return async ({ fresh = false } = {}): Promise<string> => {
    const seconds = Math.floor(now() / 1000)
    if (newest && !fresh && seconds - newest.made < life / 2) return newest.token
    // Slurm's clock may be a little behind ours.
    const claims = new SignJWT({ sun: user }).setIssuedAt(seconds - 5).setExpirationTime(seconds + life)
    const token = await claims.setProtectedHeader({ alg: 'HS256', typ: 'JWT' }).sign(await readKey(keyFile))
    newest = { token, made: seconds }
    return token
  }
}

async function readKey(file: string): Promise<Uint8Array> {
  const { mode } = await stat(file).catch(() => {
    throw new Error(`The key of the cluster's tokens cannot be read at ${file}: copy Slurm's jwt_hs256.key there.`)
  })
  if ((mode & 0o077) !== 0)
    throw new Error(
      `${file} may be read by others than the server, and signs for every user of the cluster: chmod 600 ${file}.`,
    )
  const key = await readFile(file)
  if (key.length === 0) throw new Error(`${file} is empty: copy Slurm's jwt_hs256.key there.`)
  return key
}
