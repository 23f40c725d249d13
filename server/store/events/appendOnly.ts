// A file that only grows: a write that fails half way is taken back.

import { open, stat } from 'node:fs/promises'
import { DiskFull, isNoRoom } from './fullDisk.ts'

/** Writes at `offset`, the end of what is known to be whole, over whatever a torn write has left behind it. */
export async function appendAt(path: string, offset: number, bytes: Buffer, durable: boolean): Promise<void> {
  const file = await openForWriting(path)
  try {
    const { size } = await file.stat()
    if (size > offset) await file.truncate(offset)
    try {
      let written = 0
      while (written < bytes.length) {
        const { bytesWritten } = await file.write(bytes, written, bytes.length - written, offset + written)
        written += bytesWritten
      }
      if (durable) await file.datasync()
    } catch (error) {
      await file.truncate(offset).catch(() => {})
      if (!isNoRoom(error)) throw error
      throw new DiskFull(`There is no room left on the server's disk for ${path}. What was written before is whole.`, {
        cause: error,
      })
    }
  } finally {
    await file.close()
  }
}

async function openForWriting(path: string) {
  try {
    return await open(path, 'r+')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return open(path, 'w+', 0o600)
  }
}

/** At most `length` bytes from `offset`; fewer at the end of the file, none where there is no file. */
export async function readAt(path: string, offset: number, length: number): Promise<Buffer> {
  const file = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  if (!file) return Buffer.alloc(0)
  try {
    const bytes = Buffer.allocUnsafe(length)
    let read = 0
    while (read < length) {
      const { bytesRead } = await file.read(bytes, read, length - read, offset + read)
      if (bytesRead === 0) break
      read += bytesRead
    }
    return bytes.subarray(0, read)
  } finally {
    await file.close()
  }
}

/** Bytes of a file; 0 where there is none. */
export async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
}
