// Where adapters lie: one folder of this server, and a copy in each folder that nodes read. A folder is whole or not there.

import { createHash, randomUUID } from 'node:crypto'
import { copyFile, mkdir, open, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Refusal } from '../refusal.ts'
import { checkSafetensors, LONGEST_HEADER } from './peft.ts'

export const CONFIG = 'adapter_config.json'
export const WEIGHTS = 'adapter_model.safetensors'

export interface Written {
  folder: string
  bytes: number
  /** SHA-256, hexadecimal. */
  sha256: string
}

/** Writes weights as they come to a new folder under `root`, and checks them. Leaves nothing behind when it throws. */
export async function writeAdapter(
  root: string,
  config: unknown,
  weights: AsyncIterable<Uint8Array>,
  { rank, limit }: { rank: number; limit: number },
): Promise<Written> {
  const folder = join(root, `.new-${randomUUID()}`)
  await mkdir(folder, { recursive: true, mode: 0o755 })
  try {
    const digest = createHash('sha256')
    const file = await open(join(folder, WEIGHTS), 'wx', 0o644)
    let bytes = 0
    try {
      for await (const piece of weights) {
        bytes += piece.length
        if (bytes > limit) throw new Refusal(413, 'too_large', `The weights are larger than ${limit} bytes.`)
        digest.update(piece)
        await file.writeFile(piece)
      }
      await file.sync()
    } finally {
      await file.close()
    }
    checkSafetensors(await headerOf(join(folder, WEIGHTS), bytes), bytes, rank)
    await writeFile(join(folder, CONFIG), `${JSON.stringify(config, null, 2)}\n`)
    return { folder, bytes, sha256: digest.digest('hex') }
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    throw error
  }
}

async function headerOf(path: string, bytes: number): Promise<Buffer> {
  const none = new Refusal(400, 'bad_adapter', 'The weights have no header of safetensors.', { param: 'weights' })
  if (bytes < 8) throw none
  const file = await open(path)
  try {
    const length = Number((await file.read(Buffer.alloc(8), 0, 8, 0)).buffer.readBigUInt64LE())
    if (length > LONGEST_HEADER || length + 8 > bytes) throw none
    return (await file.read(Buffer.alloc(length), 0, length, 8)).buffer
  } finally {
    await file.close()
  }
}

/** Moves a written adapter to its name. */
export async function settleAdapter({ folder }: Written, root: string, name: string) {
  await rename(folder, join(root, name))
}

const copying = new Map<string, Promise<void>>()

/** Makes sure that an adapter lies in `to` as it lies in `from`. Nodes that share a folder share the copy. */
export function copyAdapter(from: string, to: string, name: string, bytes: number): Promise<void> {
  const target = join(to, name)
  const running = copying.get(target)
  if (running) return running
  const copy = copyOnce(from, to, name, bytes).finally(() => copying.delete(target))
  copying.set(target, copy)
  return copy
}

async function copyOnce(from: string, to: string, name: string, bytes: number) {
  if (from === to) return
  const there = await stat(join(to, name, WEIGHTS)).catch(() => null)
  if (there?.size === bytes) return
  // The root itself is the operator's to make: a mount that is missing is not to be written beside.
  if (!(await stat(to).catch(() => null))?.isDirectory()) throw new Error(`${to} is not there`)
  const folder = join(to, `.new-${randomUUID()}`)
  await mkdir(folder, { mode: 0o755 })
  try {
    for (const file of [CONFIG, WEIGHTS]) await copyFile(join(from, name, file), join(folder, file))
    await rm(join(to, name), { recursive: true, force: true })
    await rename(folder, join(to, name))
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    throw error
  }
}

export async function removeAdapter(root: string, name: string) {
  await rm(join(root, name), { recursive: true, force: true })
}
