// A model of a hub without a place to keep it: the small files in memory, the weights read over the network in the parts
// that are asked for, each time anew.

import { MissingFile, type Read } from '../policy/weights.ts'
import { type HubClient, Unreachable } from './client.ts'
import { noAnswer, type OpenHubOptions } from './open.ts'
import { patiently } from './patience.ts'
import { SMALL_FILES } from './place.ts'

/** Throws a sentence when there is no such model, no access or no network. */
export async function readDirectly(model: string, client: HubClient, options: OpenHubOptions = {}): Promise<Read> {
  const { signal } = options
  const asked = <T>(ask: () => Promise<T>) => patiently(ask, options, (why) => noAnswer(model, client.base, why))
  const listing = await asked(() => client.list(model, signal))
  const revision = listing?.commit ?? 'main'
  const small = new Map<string, Promise<Uint8Array>>()
  const fetched = async (path: string, range?: { start: number; end: number }) => {
    if (listing && !listing.files.has(path))
      throw new MissingFile(`Read ${path} of ${model}: ${client.base} has no such file.`)
    return asked(async () => {
      const response = await client.get(model, revision, path, range ?? { start: 0 }, signal)
      const body = await response.arrayBuffer().catch((error: Error) => {
        throw new Unreachable(`the connection broke off (${error.message})`, { cause: error })
      })
      if (response.status === 416) return new Uint8Array(0)
      const bytes = new Uint8Array(body)
      if (!range || response.status === 206) return bytes
      if (bytes.length > range.end - range.start && range.start > 0) {
        throw new Error(
          `Read ${path} of ${model}: ${client.base} sends whole files alone, and there is no place here to keep one. Use a window that is not private.`,
        )
      }
      return bytes.subarray(range.start, range.end)
    })
  }
  const read: Read = (path, range) => {
    if (!SMALL_FILES.includes(path)) return fetched(path, range)
    let file = small.get(path)
    if (!file) {
      file = fetched(path)
      small.set(path, file)
      file.catch(() => small.delete(path))
    }
    return file
  }
  // What the hub says of its files; nothing is read whole, so nothing is checked against it.
  read.digest = async (path) => listing?.files.get(path)?.sha256 ?? null
  return read
}
