// Requests to a hub: its addresses, its token, and its refusals as sentences. Works with Hugging Face, and with anything
// that answers at the same paths.

import { MissingFile } from '../policy/weights.ts'

const HUGGING_FACE = 'https://huggingface.co'

export interface HubOptions {
  /** `https://huggingface.co`, or a mirror with its paths. */
  base: string
  /** Sent to `base` alone: a browser or Node takes it off when an answer leads elsewhere. */
  token?: string | null
  fetch?: typeof fetch
}

/** What is known of a repository before its files are fetched. */
export interface Listing {
  /** The commit that `main` stands at. */
  commit: string
  files: Map<string, RemoteFile>
}

export interface RemoteFile {
  path: string
  /** null where the hub does not say. */
  bytes: number | null
  /** Hexadecimal, of files in large file storage. */
  sha256: string | null
  /** Git's name of a small file's content. */
  oid: string | null
}

/** The hub asks who wants to know: a token is missing, wrong, or of somebody without access. */
export class GatedModel extends Error {
  override name = 'GatedModel'
}

/** No answer, or one that says to come back later: worth another try. */
export class Unreachable extends Error {
  override name = 'Unreachable'
  /** When the hub said so, seconds. */
  retryAfter: number | null = null
}

export class HubClient {
  readonly base: string
  readonly #token: string | null
  readonly #fetch: typeof fetch

  constructor({ base, token = null, fetch: own = (input, init) => fetch(input, init) }: HubOptions) {
    this.base = checkedBase(base)
    this.#token = token
    this.#fetch = own
  }

  /**
   * The files of a repository with their sizes and digests; null where the server has no such list, as a plain folder
   * of files has none.
   */
  async list(model: string, signal?: AbortSignal): Promise<Listing | null> {
    const response = await this.#ask(`${this.base}/api/models/${model}/revision/main?blobs=true`, { signal })
    if (response.status === 404 || response.status === 405) return null
    await this.#refuse(response, model, 'its list of files')
    const body = (await response.json().catch(() => null)) as ApiModel | null
    // What becomes a name in a cache is checked: a server is not trusted with paths.
    if (!body?.siblings || !isHex(body.sha, 40)) return null
    const files = body.siblings.map(
      ({ rfilename, size, blobId, lfs }): RemoteFile => ({
        path: rfilename,
        bytes: lfs?.size ?? size ?? null,
        sha256: isHex(lfs?.sha256, 64) ? lfs.sha256 : null,
        oid: isHex(blobId, 40) ? blobId : null,
      }),
    )
    return { commit: body.sha, files: new Map(files.map((file) => [file.path, file])) }
  }

  /** What the hub says of one file, where there is no list; null when there is no such file. */
  async describe(model: string, path: string, signal?: AbortSignal): Promise<RemoteFile | null> {
    const unknown: RemoteFile = { path, bytes: null, sha256: null, oid: null }
    const init: RequestInit = { method: 'HEAD', redirect: 'manual', signal }
    const response = await this.#ask(this.address(model, 'main', path), init)
    if (response.status === 404) return null
    // A page may not look at an answer that leads elsewhere; a plain server may know no HEAD.
    if (response.type === 'opaqueredirect' || response.status === 405 || response.status === 501) return unknown
    if (response.status >= 400) await this.#refuse(response, model, path)
    const { headers } = response
    const tag = (headers.get('x-linked-etag') ?? headers.get('etag') ?? '').replace(/^W\/|"/g, '')
    const linked = headers.get('x-linked-size')
    const plain = response.status === 200 && !headers.get('content-encoding') ? headers.get('content-length') : null
    const bytes = linked ?? plain
    return {
      path,
      bytes: bytes === null ? null : Number(bytes),
      sha256: isHex(tag, 64) ? tag : null,
      oid: isHex(tag, 40) ? tag : null,
    }
  }

  /**
   * The bytes of a file from `start` on (to `end`, exclusive). Status 206, 200 (the server sends all of it) or 416
   * (there is nothing at `start`).
   */
  async get(
    model: string,
    revision: string,
    path: string,
    range: { start: number; end?: number },
    signal?: AbortSignal,
  ): Promise<Response> {
    const headers: Record<string, string> = {}
    if (range.start > 0 || range.end !== undefined)
      headers.Range = `bytes=${range.start}-${range.end === undefined ? '' : range.end - 1}`
    const response = await this.#ask(this.address(model, revision, path), { headers, signal })
    if (response.status === 416) return response
    if (response.status === 404) {
      await response.body?.cancel()
      throw new MissingFile(`Fetched ${path} of ${model} from ${this.base}: there is no such file.`)
    }
    await this.#refuse(response, model, path)
    return response
  }

  address(model: string, revision: string, path: string): string {
    return `${this.base}/${model}/resolve/${revision}/${path}`
  }

  async #ask(url: string, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers)
    if (this.#token) headers.set('Authorization', `Bearer ${this.#token}`)
    try {
      // Files lie in a cache of our own: the browser's would hold them a second time.
      return await this.#fetch(url, { cache: 'no-store', ...init, headers })
    } catch (error) {
      init.signal?.throwIfAborted()
      throw new Unreachable(`no answer came from ${new URL(url).host} (${reason(error)})`, { cause: error })
    }
  }

  async #refuse(response: Response, model: string, what: string): Promise<void> {
    const { status } = response
    if (response.ok) return
    await response.body?.cancel()
    const from = `Fetched ${what} of ${model} from ${this.base}`
    if (status === 401) {
      throw new GatedModel(
        this.#token
          ? `${from}: the token is not accepted (401). Make a new one that may read at ${this.base}/settings/tokens.`
          : `${from}: it asks for a token (401). Either the model is gated: accept its terms at ${this.base}/${model} and give a token that may read; or there is no model of this name.`,
      )
    }
    if (status === 403) {
      throw new GatedModel(
        `${from}: access was refused (403). Accept the model's terms at ${this.base}/${model} with the account ` +
          `${this.#token ? 'of the token' : 'that you take a token from'}, and try again.`,
      )
    }
    if (status === 429 || status >= 500) {
      const error = new Unreachable(`${new URL(this.base).host} answered ${status}`)
      error.retryAfter = Number(response.headers.get('retry-after')) || null
      throw error
    }
    throw new Error(`${from}: the server answered ${status}. Check the name of the model and the address of the hub.`)
  }
}

interface ApiModel {
  sha?: string
  siblings?: { rfilename: string; size?: number; blobId?: string; lfs?: { sha256?: string; size?: number } }[]
}

function isHex(text: string | undefined, length: number): text is string {
  return text?.length === length && /^[0-9a-f]*$/.test(text)
}

/** Why a fetch failed: Node hides it in the cause. */
function reason(error: unknown): string {
  const { message, cause } = error as Error
  return cause instanceof Error && cause.message ? cause.message : message
}

/** The address as everything of it is kept by: without a slash at the end. */
export function hubAddress(base: string | null | undefined = HUGGING_FACE): string {
  return checkedBase(base ?? HUGGING_FACE)
}

function checkedBase(base: string): string {
  let url: URL
  try {
    url = new URL(base)
  } catch {
    throw new Error(
      `browser.hub is ${JSON.stringify(base)}: expected the address of a hub, for example ${HUGGING_FACE}.`,
    )
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw new Error(`browser.hub is ${JSON.stringify(base)}: expected an address that begins with https.`)
  if (url.username || url.password)
    throw new Error('browser.hub holds a password: give the token by itself; it is then kept out of configs and links.')
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '')
}
