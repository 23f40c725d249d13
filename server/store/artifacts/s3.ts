// Artifacts in a bucket of an S3-compatible store.

import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { S3mini } from 's3mini'
import { type ArtifactStore, PLACE } from './artifacts.ts'
import { digest } from './disk.ts'

export interface S3Options {
  /** The bucket's address: `https://host/bucket`. */
  endpoint: string
  region: string
  accessKeyId: string
  secretAccessKey: string
  /** Before every name, with a slash at its end; empty for none. */
  prefix: string
}

const REQUEST_MS = 600_000
/** Of a file in parts; the service takes ten thousand of them. */
const PART_BYTES = 16 * 1024 * 1024

export class S3Artifacts implements ArtifactStore {
  readonly #s3: S3mini
  readonly #prefix: string
  readonly #endpoint: string

  constructor({ endpoint, region, accessKeyId, secretAccessKey, prefix }: S3Options) {
    const sizes = { requestAbortTimeout: REQUEST_MS, minPartSize: PART_BYTES, requestSizeInBytes: PART_BYTES }
    this.#s3 = new S3mini({ endpoint, region, accessKeyId, secretAccessKey, ...sizes })
    this.#prefix = prefix
    this.#endpoint = endpoint
  }

  async check(): Promise<void> {
    const there = await this.#told('looked for', '', () => this.#s3.bucketExists())
    if (!there) throw new Error(`Looked for the bucket ${this.#endpoint}: it is not there, or not for this key.`)
  }

  async put(place: string, path: string): Promise<{ bytes: number; sha256: string }> {
    const said = await digest(path)
    // What fits into one request is sent whole: a stream would ask fetch for a duplex that the library does not ask for.
    const whole = said.bytes <= PART_BYTES
    const file = whole ? await readFile(path) : (Readable.toWeb(createReadStream(path)) as ReadableStream)
    const type = 'application/octet-stream'
    await this.#told('stored', place, () =>
      this.#s3.putAnyObject(this.#key(place), file, type, undefined, undefined, said.bytes),
    )
    return said
  }

  async read(place: string, range?: { start: number; end: number }): Promise<ReadableStream<Uint8Array>> {
    if (range && range.end <= range.start) return new Blob([]).stream()
    const answer = await this.#told('read', place, () =>
      range
        ? this.#s3.getObjectRaw(this.#key(place), false, range.start, range.end)
        : this.#s3.getObjectResponse(this.#key(place)),
    )
    if (!answer) throw new Error(`The artifact ${place} is gone from ${this.#endpoint}.`)
    return (answer.body as ReadableStream<Uint8Array> | null) ?? new Blob([]).stream()
  }

  async remove(place: string): Promise<void> {
    await this.#told('removed', place, () => this.#s3.deleteObject(this.#key(place)))
  }

  #key(place: string): string {
    if (!PLACE.test(place)) throw new Error(`internal: "${place}" is no place of an artifact`)
    return `${this.#prefix}${place}`
  }

  async #told<T>(done: string, place: string, act: () => Promise<T>): Promise<T> {
    try {
      return await act()
    } catch (error) {
      const what = place === '' ? 'the bucket' : `the artifact ${place}`
      throw new Error(`Not ${done}: ${what} at ${this.#endpoint}. ${(error as Error).message}`, { cause: error })
    }
  }
}
