// Brings one file: from where it broke off, as often as it takes while bytes keep coming, and checked against the digest
// that the hub gave.

import { type HubClient, type RemoteFile, Unreachable } from './client.ts'
import { again, type Patience } from './patience.ts'
import type { Part } from './place.ts'

export interface DownloadOptions extends Patience {
  /** Bytes of the file that are here. */
  onBytes?: (bytes: number) => void
  /** An answer that brings nothing for so long is given up. */
  silenceMs?: number
}

/** What came is not the file: its size or digest is another one. Nothing of it is kept. */
export class WrongBytes extends Error {
  override name = 'WrongBytes'
}

const PIECE = 8 * 2 ** 20

/** Resolves when the whole file is kept: its size and SHA-256. */
export async function download(
  client: HubClient,
  model: string,
  revision: string,
  file: RemoteFile,
  part: Part,
  options: DownloadOptions = {},
): Promise<{ bytes: number; sha256: string }> {
  const { signal, onBytes } = options
  let hasher = await part.hasher()
  for (let at = 0; at < part.bytes; at += PIECE) hasher.update(await part.read(at, Math.min(at + PIECE, part.bytes)))
  const restart = async () => {
    await part.clear()
    hasher = await part.hasher()
  }
  if (file.bytes !== null && part.bytes > file.bytes) await restart()
  onBytes?.(part.bytes)

  let idle = 0
  for (;;) {
    signal?.throwIfAborted()
    const before = part.bytes
    try {
      const done = await bring(client, model, revision, file, part, {
        ...options,
        restart,
        take: (bytes) => hasher.update(bytes),
      })
      if (done) break
    } catch (error) {
      idle = part.bytes > before ? 1 : idle + 1
      await again(error, idle, options, (why) =>
        [
          `Fetched ${file.path} of ${model} from ${client.base}: ${why}, ${idle} times in a row.`,
          ...(part.bytes > 0 ? ['What came is kept, and the next start goes on from there.'] : []),
          'Check the connection and play again.',
        ].join(' '),
      )
    }
  }
  const sha256 = hasher.hex()
  if (file.sha256 !== null && sha256 !== file.sha256) {
    await restart()
    throw new WrongBytes(
      `Fetched ${file.path} of ${model} from ${client.base}: its SHA-256 is ${sha256}, the hub says ${file.sha256}. ` +
        'What came was thrown away; play again to fetch it anew.',
    )
  }
  const { bytes } = part
  await part.keep(sha256)
  return { bytes, sha256 }
}

/** One answer, as far as it goes. True when the file is whole; throws `Unreachable` when it broke off. */
async function bring(
  client: HubClient,
  model: string,
  revision: string,
  file: RemoteFile,
  part: Part,
  {
    restart,
    take,
    onBytes,
    signal,
    silenceMs = 60_000,
  }: DownloadOptions & { restart: () => Promise<void>; take: (bytes: Uint8Array) => void },
): Promise<boolean> {
  if (file.bytes !== null && part.bytes === file.bytes) return true
  const silence = watchSilence(silenceMs, signal)
  try {
    const response = await client.get(model, revision, file.path, { start: part.bytes }, silence.signal)
    const range = readRange(response.headers.get('content-range'))
    if (response.status === 416) {
      await response.body?.cancel()
      // Without a size from the hub, the end of the file is found by asking behind it.
      if (range.total === part.bytes) return true
      await restart()
      throw new Unreachable(`the server has nothing at byte ${part.bytes}`)
    }
    if (response.status === 200 && part.bytes > 0) await restart()
    if (response.status === 206 && range.start !== null && range.start !== part.bytes)
      throw new Unreachable(`bytes from ${range.start} came instead of those from ${part.bytes}`)
    const total = range.total ?? wholeLength(response, file.path)
    if (file.bytes !== null && total !== null && total !== file.bytes) {
      await response.body?.cancel()
      await restart()
      throw new WrongBytes(
        `Fetched ${file.path} of ${model} from ${client.base}: the server sends ${total} bytes, the hub's list says ${file.bytes}. ` +
          'The model was changed meanwhile, or the mirror is out of date: play again, or use another hub.',
      )
    }
    await readBody(response, silence, async (bytes) => {
      await part.append(bytes)
      take(bytes)
      onBytes?.(part.bytes)
    })
    const expected = file.bytes ?? total
    if (expected !== null && part.bytes > expected) {
      await restart()
      throw new WrongBytes(
        `Fetched ${file.path} of ${model} from ${client.base}: more came than its ${expected} bytes. It was thrown away; play again.`,
      )
    }
    if (expected !== null && part.bytes < expected)
      throw new Unreachable(`the connection broke off after ${part.bytes} of ${expected} bytes`)
    return true
  } finally {
    silence.end()
  }
}

/** Hands over what comes in large pieces, since each write costs the same; nothing waits long, and nothing is lost. */
async function readBody(
  response: Response,
  silence: Silence,
  take: (bytes: Uint8Array) => Promise<void>,
): Promise<void> {
  const reader = response.body?.getReader()
  if (!reader) return
  let waiting: Uint8Array[] = []
  let bytes = 0
  const handOver = async () => {
    if (bytes === 0) return
    const piece = joined(waiting, bytes)
    waiting = []
    bytes = 0
    await take(piece)
  }
  try {
    for (;;) {
      const next = reader.read()
      if (bytes > 0 && (await isLate(next, HAND_OVER_MS))) await handOver()
      const { done, value } = await next
      if (done) break
      silence.heard()
      waiting.push(value)
      bytes += value.length
      if (bytes >= HAND_OVER_BYTES) await handOver()
    }
  } catch (error) {
    await handOver()
    silence.throwIfStopped()
    if ((error as Error).name === 'StorageFull') throw error
    throw new Unreachable(`the connection broke off (${(error as Error).message})`, { cause: error })
  } finally {
    reader.cancel().catch(() => {})
  }
  await handOver()
}

const HAND_OVER_BYTES = 4 * 2 ** 20
const HAND_OVER_MS = 200

/** Whether a promise takes longer than that; what it settles to is for somebody else. */
async function isLate(promise: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(true), ms)
  })
  const inTime = promise.then(
    () => false,
    () => false,
  )
  const result = await Promise.race([inTime, late])
  clearTimeout(timer)
  return result
}

function joined(parts: Uint8Array[], bytes: number): Uint8Array {
  if (parts.length === 1) return parts[0]
  const whole = new Uint8Array(bytes)
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

interface Silence {
  signal: AbortSignal
  heard(): void
  /** Throws when the caller has given up; a silence is an `Unreachable`. */
  throwIfStopped(): void
  end(): void
}

function watchSilence(ms: number, outer?: AbortSignal): Silence {
  const controller = new AbortController()
  const silent = () => controller.abort(new Unreachable(`nothing came for ${Math.round(ms / 1000)} seconds`))
  const stop = () => controller.abort(outer?.reason)
  let timer = setTimeout(silent, ms)
  outer?.addEventListener('abort', stop)
  return {
    signal: controller.signal,
    heard() {
      clearTimeout(timer)
      timer = setTimeout(silent, ms)
    },
    throwIfStopped() {
      if (controller.signal.aborted) throw controller.signal.reason
    },
    end() {
      clearTimeout(timer)
      outer?.removeEventListener('abort', stop)
    },
  }
}

/** `bytes 100-199/1000` or a star before the total; nulls where the server does not let it be read. */
function readRange(header: string | null): { start: number | null; total: number | null } {
  const match = /^bytes (?:(\d+)-\d+|\*)\/(\d+|\*)$/.exec(header ?? '')
  if (!match) return { start: null, total: null }
  const [, start, total] = match
  return { start: start === undefined ? null : Number(start), total: total === '*' ? null : Number(total) }
}

// A text may be sent compressed, with the length of that, and a page is not told so; weights are sent as they are.
function wholeLength(response: Response, path: string): number | null {
  const length = response.headers.get('content-length')
  const asStored = path.endsWith('.safetensors') && !response.headers.get('content-encoding')
  return response.status === 200 && length !== null && asStored ? Number(length) : null
}
