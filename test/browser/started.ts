// The product as a person starts it: `npm start`, in a process of its own, with a data folder of its own.

import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '../../build/paths.ts'

export interface Started {
  url: string
  /** `url` with the one-time token that the server printed. */
  link: string
  data: string
  /** Everything printed so far. */
  output(): string
  /** Ctrl-C; resolves to the exit code, when the data folder is gone too. */
  interrupt(): Promise<number | null>
  /** SIGKILL: no last word. */
  kill(): Promise<unknown>
  /** An answer of the API to a program of this machine. */
  api<Answer>(path: string, init?: RequestInit): Promise<Answer>
}

/** On a free port of its own, so that a server which already runs on this machine is left alone. */
export function npmStart({ port = 0, data = newDataFolder() } = {}): Promise<Started> {
  const args = [join(ROOT, 'bin/rollout-lab.mjs'), 'serve', '--port', String(port)]
  const child = spawn(process.execPath, args, { cwd: ROOT, env: { ...process.env, ROLLOUT_LAB_DATA: data } })
  const closed = new Promise<number | null>((resolve) => child.on('close', resolve))
  let output = ''
  return new Promise((resolve, reject) => {
    const read = (chunk: Buffer) => {
      output += chunk
      const link = output.match(/http:\/\/127\.0\.0\.1:\d+\/\S*(?=\s)/)?.[0]
      if (!link) return
      const url = new URL('/', link).href
      resolve({
        url,
        link,
        data,
        output: () => output,
        async interrupt() {
          child.kill('SIGINT')
          const code = await closed
          rmSync(data, { recursive: true, force: true })
          return code
        },
        kill() {
          child.kill('SIGKILL')
          return closed
        },
        async api(path, init) {
          const { key } = JSON.parse(readFileSync(join(data, 'server.json'), 'utf8'))
          const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
          const response = await fetch(new URL(`api/${path}`, url), { headers, ...init })
          if (!response.ok) throw new Error(`${response.status} at ${path}: ${await response.text()}`)
          return response.json()
        },
      })
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
    child.on('error', reject)
    closed.then((code) => reject(new Error(`The server ended with code ${code} before it named its URL:\n${output}`)))
  })
}

function newDataFolder(): string {
  return mkdtempSync(join(tmpdir(), 'rollout-lab-data-'))
}
