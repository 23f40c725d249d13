// The product as a person starts it: `npm start`, in a process of its own.

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '../../build/paths.ts'

export interface Started {
  /** Without a token: a page that is not signed in. */
  url: string
  /** Signs the page in that opens it first. */
  link: string
  /** Everything printed so far. */
  output(): string
  /** Ctrl-C; resolves to the exit code. */
  interrupt(): Promise<number | null>
}

export function npmStart(): Promise<Started> {
  // On a free port and with a data folder of its own, so that a server which already runs on this machine is left alone.
  const data = mkdtempSync(join(tmpdir(), 'rollout-lab-data-'))
  const child = spawn(process.execPath, [join(ROOT, 'bin/rollout-lab.mjs'), 'serve', '--port', '0'], {
    cwd: ROOT,
    env: { ...process.env, ROLLOUT_LAB_DATA: data },
  })
  const closed = new Promise<number | null>((resolve) => child.on('close', resolve))
  closed.then(() => rmSync(data, { recursive: true, force: true }))
  let output = ''
  return new Promise((resolve, reject) => {
    const read = (chunk: Buffer) => {
      output += chunk
      const [link, url] = output.match(/(http:\/\/127\.0\.0\.1:\d+\/)\?token=\S+(?=\s)/) ?? []
      const interrupt = () => {
        child.kill('SIGINT')
        return closed
      }
      if (link && url) resolve({ url, link, output: () => output, interrupt })
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
    child.on('error', reject)
    closed.then((code) => reject(new Error(`The server ended with code ${code} before it named its URL:\n${output}`)))
  })
}
