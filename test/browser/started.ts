// The product as a person starts it: `npm start`, in a process of its own.

import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { ROOT } from '../../build/paths.ts'

export interface Started {
  url: string
  /** Everything printed so far. */
  output(): string
  /** Ctrl-C; resolves to the exit code. */
  interrupt(): Promise<number | null>
}

export function npmStart(): Promise<Started> {
  // On a free port of its own, so that a server which already runs on this machine is left alone.
  const child = spawn(process.execPath, [join(ROOT, 'bin/rollout-lab.mjs'), 'serve', '--port', '0'], { cwd: ROOT })
  const closed = new Promise<number | null>((resolve) => child.on('close', resolve))
  let output = ''
  return new Promise((resolve, reject) => {
    const read = (chunk: Buffer) => {
      output += chunk
      const url = output.match(/http:\/\/127\.0\.0\.1:\d+\//)?.[0]
      const interrupt = () => {
        child.kill('SIGINT')
        return closed
      }
      if (url) resolve({ url, output: () => output, interrupt })
    }
    child.stdout.on('data', read)
    child.stderr.on('data', read)
    child.on('error', reject)
    closed.then((code) => reject(new Error(`The server ended with code ${code} before it named its URL:\n${output}`)))
  })
}
