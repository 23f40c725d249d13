// The server's log: one JSON object a line. Nothing that opens a door ever stands in it: fields with a telling name are
// redacted by name, and the finished line is searched for credentials once more, whatever field or stack they came in.

import { type DestinationStream, destination, type Logger, pino, stdSerializers } from 'pino'
import { CREDENTIAL_TEXT } from '../access/credentials.ts'
import type { Level } from './config.ts'

export type Log = Logger

const TELLING =
  /^(authorization|proxy-authorization|cookie|set-cookie|x-api-key|.*(api_?key|token|secret|passw(or)?d|credential).*)$/i
const COUNTS = /tokens?_?(per|count|s$)|^(prompt|completion|max)_?tokens$/i
/** Keys of providers that people may have in a config or an address: the forms that are known by sight. */
const FOREIGN =
  /\b(sk-[\w-]{16,}|hf_\w{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|xox[abprs]-[\w-]{10,}|AKIA[A-Z0-9]{16}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+)/g
const IN_ADDRESS = /([a-z][a-z0-9+.-]*:\/\/)[^\s/@"']+@/gi
const BEARER = /\b(bearer|basic) +[\w.~+/=-]{8,}/gi
const MARK = '[redacted]'

/** A text as it may stand in a log or an answer about a failure. */
export function withoutCredentials(text: string): string {
  return text
    .replace(CREDENTIAL_TEXT, MARK)
    .replace(FOREIGN, MARK)
    .replace(BEARER, `$1 ${MARK}`)
    .replace(IN_ADDRESS, `$1${MARK}@`)
}

export interface LogOptions {
  level: Level
  file?: string
  /** Instead of a file or standard error. */
  to?: { write(line: string): void }
}

/** `flush` waits for nothing and leaves nothing behind. */
export function openLog({ level, file, to }: LogOptions): { log: Log; flush(): void } {
  const out = to ? null : destination({ dest: file ?? 2, sync: false, mkdir: true, append: true, mode: 0o600 })
  const sink: DestinationStream = to ?? out!
  const log = pino(
    {
      level,
      base: undefined,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: {
        level: (label) => ({ level: label }),
        log: (fields) => redactFields(fields) as Record<string, unknown>,
      },
      serializers: { err: stdSerializers.err },
    },
    { write: (line: string) => sink.write(withoutCredentials(line)) },
  )
  return {
    log,
    flush() {
      try {
        out?.flushSync()
      } catch {
        // Nothing was written yet, or the file is closed: nothing to flush.
      }
    },
  }
}

const DEEPEST = 6

/** A copy in which the values of telling names are taken out. */
function redactFields(value: unknown, depth = 0): unknown {
  if (value === null || typeof value !== 'object' || value instanceof Error || depth > DEEPEST) return value
  if (Array.isArray(value)) return value.map((item) => redactFields(item, depth + 1))
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) =>
      TELLING.test(name) && !COUNTS.test(name) && typeof item !== 'number'
        ? [name, MARK]
        : [name, redactFields(item, depth + 1)],
    ),
  )
}
