// A verb's way to a server: one of this machine through its data folder, any other by --server and ROLLOUT_LAB_KEY.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { type Context, Refusal } from './verb.ts'

/** What a server of this machine leaves in its data folder while it runs, readable by its owner alone. */
const DOOR_FILE = 'server.json'

/** Where a server without a config file keeps its data: `ROLLOUT_LAB_DATA`, else `data` beside package.json. */
export function dataFolder({ root }: Pick<Context, 'root'>): string {
  return process.env.ROLLOUT_LAB_DATA || join(root, 'data')
}

export interface ServerOptions {
  server?: string
}

/** Adds --server to a verb. A key is no option: other programs can read a command line. */
export function withServer(command: Command): Command {
  return command.option(
    '--server <url>',
    'another server than the one of this machine, with its key in ROLLOUT_LAB_KEY (default: ROLLOUT_LAB_SERVER)',
  )
}

export class Client {
  constructor(
    /** Ends with a slash. */
    readonly url: string,
    private readonly key: string,
  ) {}

  /** One request below /api; the answer as it is. A server that cannot be reached is a Refusal. */
  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers)
    headers.set('Authorization', `Bearer ${this.key}`)
    try {
      return await fetch(new URL(`api/${path}`, this.url), { redirect: 'error', ...init, headers })
    } catch (error) {
      if ((error as Error).name === 'AbortError') throw error
      const { cause } = error as { cause?: { code?: string; message?: string } }
      throw new Refusal(
        `The server at ${this.url} did not answer (${cause?.code ?? cause?.message ?? (error as Error).message}): is it running?`,
      )
    }
  }

  /** A JSON answer; a refusal of the server is a Refusal with its own sentence. */
  async ask<Answer>(method: string, path: string, body?: unknown): Promise<Answer> {
    const json =
      body === undefined ? {} : { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }
    const response = await this.fetch(path, { method, ...json })
    if (!response.ok) throw await refusalOf(response)
    return (response.status === 204 ? undefined : await response.json()) as Answer
  }
}

export async function refusalOf(response: Response): Promise<Refusal> {
  const answer = (await response.json().catch(() => null)) as { error?: unknown } | null
  const sentence = typeof answer?.error === 'string' ? answer.error : `${response.status} at ${response.url}.`
  return new Refusal(sentence)
}

/** Throws a Refusal where there is no server to be found or no key to it. */
export function connect(context: Pick<Context, 'root'>, options: ServerOptions): Client {
  const given = options.server ?? process.env.ROLLOUT_LAB_SERVER
  const key = process.env.ROLLOUT_LAB_KEY
  const folder = dataFolder(context)
  const door = doorOf(folder)
  if (given === undefined) {
    if (door) return new Client(door.url, door.key)
    throw new Refusal(
      `No server of this machine is running (there is no ${DOOR_FILE} in ${folder}): start one with \`rollout-lab serve\`, or name another with --server and ROLLOUT_LAB_KEY.`,
    )
  }
  let url: URL
  try {
    url = new URL(given.endsWith('/') ? given : `${given}/`)
  } catch {
    throw new Refusal(`--server is ${given}: expected an address such as https://lab.example.`)
  }
  if (key) return new Client(url.href, key)
  if (door && new URL(door.url).origin === url.origin) return new Client(door.url, door.key)
  throw new Refusal(`The server ${url.origin} asks for a key: put it into the variable ROLLOUT_LAB_KEY.`)
}

function doorOf(folder: string): { url: string; key: string } | null {
  try {
    return JSON.parse(readFileSync(join(folder, DOOR_FILE), 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw new Refusal(`${join(folder, DOOR_FILE)} cannot be read: ${(error as Error).message}.`)
  }
}
