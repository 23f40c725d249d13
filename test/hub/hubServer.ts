// A hub on loopback, as Hugging Face answers: a list of files, small files from the hub itself, large ones from a second
// server that it redirects to, ranges, tokens, CORS. Can be told to misbehave.

import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface HostedModel {
  files: Record<string, Uint8Array>
  commit?: string
  /** Who may read it; everybody when absent. */
  token?: string
  /** A token that is known, but has not accepted the terms. */
  strangersToken?: string
}

export interface Faults {
  /** No list of files: a plain mirror. */
  noList: boolean
  /** The large files' server sends whole files alone. */
  noRanges: boolean
  /** No X-Linked headers and no useful ETag. */
  noDigests: boolean
  /** The connection is cut after so many bytes of this file, so many times. */
  cut: { path: string; after: number; times: number } | null
  /** The connection stays open after so many bytes, and nothing more comes. */
  hang: { path: string; after: number; times: number } | null
  /** These requests are answered with this status, so many times. */
  status: { path: string; status: number; times: number } | null
  /** The list gives this file another size, or another digest. */
  lie: { path: string; bytes?: number; sha256?: string } | null
  /** Every byte of this file is another one. */
  spoil: string | null
}

export interface Asked {
  server: 'hub' | 'cdn'
  method: string
  path: string
  range: string | null
  authorization: string | null
}

export interface HubServer {
  base: string
  models: Record<string, HostedModel>
  faults: Faults
  asked: Asked[]
  close(): Promise<void>
}

const SOUND: Faults = {
  noList: false,
  noRanges: false,
  noDigests: false,
  cut: null,
  hang: null,
  status: null,
  lie: null,
  spoil: null,
}
const COMMIT = 'c1899de289a04d12100db370d81485cdf75e47ca'

export async function startHub(models: Record<string, HostedModel>): Promise<HubServer> {
  const asked: Asked[] = []
  const hub = createServer((request, response) => answer('hub', request, response))
  const cdn = createServer((request, response) => answer('cdn', request, response))
  const [base, store] = [await listen(hub), await listen(cdn)]
  const state: HubServer = {
    base,
    models,
    faults: { ...SOUND },
    asked,
    close: async () => {
      for (const server of [hub, cdn]) {
        server.closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      }
    },
  }

  function answer(server: Asked['server'], request: IncomingMessage, response: ServerResponse): void {
    response.setHeader('Access-Control-Allow-Origin', '*')
    response.setHeader('Access-Control-Allow-Headers', 'authorization, range')
    response.setHeader(
      'Access-Control-Expose-Headers',
      'X-Repo-Commit,X-Linked-Size,X-Linked-ETag,ETag,Accept-Ranges,Content-Range',
    )
    const { method = 'GET', headers } = request
    if (method === 'OPTIONS') {
      response.writeHead(204).end()
      return
    }
    const path = decodeURIComponent((request.url ?? '/').split('?')[0])
    asked.push({ server, method, path, range: headers.range ?? null, authorization: headers.authorization ?? null })
    const { status } = state.faults
    if (status && status.times > 0 && path.endsWith(status.path)) {
      status.times--
      response.writeHead(status.status).end('no')
      return
    }
    if (server === 'cdn') sendLarge(path, request, response)
    else if (path.startsWith('/api/')) sendList(path, request, response)
    else sendFromHub(path, request, response)
  }

  function admitted(model: HostedModel, request: IncomingMessage, response: ServerResponse): boolean {
    const { authorization } = request.headers
    if (!model.token || authorization === `Bearer ${model.token}`) return true
    const known = model.strangersToken && authorization === `Bearer ${model.strangersToken}`
    response.writeHead(known ? 403 : 401, { 'X-Error-Code': 'GatedRepo' }).end('Access is restricted.')
    return false
  }

  // Hugging Face lists the files of a gated model to everybody, and hides what does not exist behind a 401.
  function sendList(path: string, _request: IncomingMessage, response: ServerResponse): void {
    const [, name] = /^\/api\/models\/(.+)\/revision\/main$/.exec(path) ?? []
    const model = state.models[name]
    if (state.faults.noList) {
      response.writeHead(404).end('no such page')
      return
    }
    if (!model) {
      response.writeHead(401, { 'X-Error-Code': 'RepoNotFound' }).end('Repository not found')
      return
    }
    const { lie } = state.faults
    const siblings = Object.entries(model.files).map(([rfilename, bytes]) => {
      const size = lie?.path === rfilename ? (lie.bytes ?? bytes.length) : bytes.length
      const digest = lie?.path === rfilename ? (lie.sha256 ?? sha256(bytes)) : sha256(bytes)
      return isLarge(rfilename)
        ? { rfilename, size, blobId: gitName(bytes), lfs: { sha256: digest, size, pointerSize: 134 } }
        : { rfilename, size, blobId: gitName(bytes) }
    })
    response.writeHead(200, { 'Content-Type': 'application/json' })
    response.end(JSON.stringify({ id: name, sha: model.commit ?? COMMIT, siblings }))
  }

  function sendFromHub(path: string, request: IncomingMessage, response: ServerResponse): void {
    const [, name, revision, file] = /^\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/.exec(path) ?? []
    const model = state.models[name]
    const commit = model?.commit ?? COMMIT
    const bytes = revision === 'main' || revision === commit ? model?.files[file] : undefined
    if (!model || bytes === undefined) {
      response.writeHead(404, { 'X-Error-Code': 'EntryNotFound' }).end('Entry not found')
      return
    }
    if (!admitted(model, request, response)) return
    if (!state.faults.noDigests) response.setHeader('X-Repo-Commit', commit)
    if (!isLarge(file)) {
      if (!state.faults.noDigests) response.setHeader('ETag', `"${gitName(bytes)}"`)
      send(file, bytes, request, response)
      return
    }
    if (!state.faults.noDigests) {
      response.setHeader('X-Linked-Size', bytes.length)
      response.setHeader('X-Linked-ETag', `"${sha256(bytes)}"`)
    }
    response.writeHead(302, { Location: `${store}/${name}/${file}` }).end()
  }

  function sendLarge(path: string, request: IncomingMessage, response: ServerResponse): void {
    const [, name, file] = /^\/([^/]+\/[^/]+)\/(.+)$/.exec(path) ?? []
    const bytes = state.models[name]?.files[file]
    if (!bytes) response.writeHead(404).end()
    else send(file, state.faults.spoil === file ? bytes.map((byte) => byte ^ 1) : bytes, request, response)
  }

  function send(file: string, whole: Uint8Array, request: IncomingMessage, response: ServerResponse): void {
    const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? []
    let body = whole
    if (from !== undefined && !state.faults.noRanges) {
      const start = Number(from)
      if (start >= whole.length) {
        response.writeHead(416, { 'Content-Range': `bytes */${whole.length}` }).end()
        return
      }
      const end = to ? Math.min(Number(to) + 1, whole.length) : whole.length
      body = whole.subarray(start, end)
      response.writeHead(206, {
        'Content-Range': `bytes ${start}-${end - 1}/${whole.length}`,
        'Content-Length': body.length,
      })
    } else response.writeHead(200, { 'Content-Length': whole.length, 'Content-Type': 'application/octet-stream' })
    const { cut, hang } = state.faults
    if (request.method === 'HEAD') response.end()
    else if (hang?.path === file && hang.times > 0) {
      hang.times--
      response.write(body.subarray(0, hang.after))
    } else if (cut?.path === file && cut.times > 0) {
      cut.times--
      response.write(body.subarray(0, cut.after), () => setTimeout(() => response.destroy(), 20))
    } else response.end(body)
  }
  return state
}

/** What Hugging Face keeps in large file storage. */
function isLarge(path: string): boolean {
  return path.endsWith('.safetensors') || path === 'tokenizer.json'
}

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}

function gitName(bytes: Uint8Array): string {
  return createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex')
}

async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
