// In the process of a run: takes secrets out of what it prints, before it is written down.

import { redactor } from './redact.ts'

/** From here on, and until the process ends. */
export function redactOutput(variables: Record<string, string>): void {
  if (Object.keys(variables).length === 0) return
  for (const stream of [process.stdout, process.stderr]) {
    const redact = redactor(variables)
    const write = stream.write.bind(stream) as (bytes: Uint8Array, done?: () => void) => boolean
    const bytesOf = (chunk: string | Uint8Array, encoding: unknown) =>
      typeof chunk === 'string' ? Buffer.from(chunk, encoding as BufferEncoding) : chunk
    stream.write = (chunk: string | Uint8Array, encoding?: unknown, done?: unknown) => {
      const callback = typeof encoding === 'function' ? encoding : done
      const bytes = redact.part(bytesOf(chunk, typeof encoding === 'string' ? encoding : 'utf8'))
      return write(bytes, callback as () => void)
    }
    process.on('exit', () => {
      const rest = redact.end()
      if (rest.length > 0) write(rest)
    })
  }
}
