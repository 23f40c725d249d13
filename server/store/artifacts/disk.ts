// Artifacts as files below a folder.

import { createHash } from 'node:crypto'
import { constants, createReadStream } from 'node:fs'
import { copyFile, link, mkdir, open, rename, rm, rmdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { DiskFull, isNoRoom } from '../events/fullDisk.ts'
import { type ArtifactStore, PLACE } from './artifacts.ts'

export class DiskArtifacts implements ArtifactStore {
  #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  async check(): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 })
  }

  async put(place: string, path: string): Promise<{ bytes: number; sha256: string }> {
    const target = this.#path(place)
    const partial = `${target}.partial`
    await mkdir(dirname(target), { recursive: true, mode: 0o700 })
    await rm(partial, { force: true })
    try {
      // What a run leaves is written aside and moved into place, never changed: a second name for it is enough.
      await link(path, partial).catch(() => copyFile(path, partial, constants.COPYFILE_FICLONE))
      const said = await digest(partial)
      await rename(partial, target)
      return said
    } catch (error) {
      await rm(partial, { force: true })
      if (!isNoRoom(error)) throw error
      throw new DiskFull(`There is no room left on the server's disk for the artifact ${place}.`, { cause: error })
    }
  }

  async read(place: string, range?: { start: number; end: number }): Promise<ReadableStream<Uint8Array>> {
    // Not through a link: what lies here was put here.
    const file = await open(this.#path(place), constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0)).catch((error) => {
      throw new Error(`The artifact ${place} is gone from the server's disk (${error.code}).`)
    })
    const { size } = await file.stat()
    const { start, end } = range ?? { start: 0, end: size }
    if (end <= start) {
      await file.close()
      return new Blob([]).stream()
    }
    const stream = createReadStream('', { fd: file, start, end: end - 1, highWaterMark: 65_536 })
    return Readable.toWeb(stream) as ReadableStream<Uint8Array>
  }

  async remove(place: string): Promise<void> {
    const path = this.#path(place)
    await rm(path, { force: true })
    // Folders that nothing is left in.
    for (let folder = dirname(path); folder !== this.#folder; folder = dirname(folder))
      if (
        !(await rmdir(folder).then(
          () => true,
          () => false,
        ))
      )
        break
  }

  #path(place: string): string {
    if (!PLACE.test(place)) throw new Error(`internal: "${place}" is no place of an artifact`)
    return join(this.#folder, ...place.split('/'))
  }
}

/** Bytes of a file and their SHA-256 in hexadecimal, in one reading. */
export async function digest(path: string): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk)
  return { bytes: (await stat(path)).size, sha256: hash.digest('hex') }
}
