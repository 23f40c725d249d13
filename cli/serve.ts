// `rollout-lab serve`: the page and the server, on one port of 127.0.0.1, until Ctrl-C.

import { join } from 'node:path'
import { Command, InvalidArgumentError } from 'commander'
import type { Context } from './verb.ts'

const DEFAULT_PORT = 5173

export function command({ root, buildPage }: Context): Command {
  return new Command()
    .option('--port <number>', 'the port; the next free one when it is taken', port, DEFAULT_PORT)
    .action(async (options: { port: number }) => {
      await buildPage()
      const { serve } = await import('../server/main.ts')
      const stopped = new Promise<void>((resolve) => {
        process.once('SIGINT', resolve)
        process.once('SIGTERM', resolve)
      })
      const server = await serve({ webRoot: join(root, 'dist/web'), port: options.port })
      process.stdout.write(`Rollout Lab is at ${server.url}\n`)
      process.stderr.write('Ctrl-C stops it.\n')
      await stopped
      await server.close()
    })
}

function port(text: string): number {
  const number = Number(text)
  if (Number.isInteger(number) && number >= 0 && number <= 65535) return number
  throw new InvalidArgumentError('A port is a whole number from 0 (any free one) to 65535.')
}
