// `rollout-lab keys`: who may ask a server for what. A key is told once, on standard output, and nowhere else.

import { Command, InvalidArgumentError, Option } from 'commander'
import type { AuditView } from '../server/access/audit.ts'
import type { KeyView } from '../server/access/keys.ts'
import { connect, type ServerOptions, withServer } from './client.ts'
import { columns } from './columns.ts'
import type { Context } from './verb.ts'

const SCOPES = ['infer', 'runs:read', 'runs:write', 'operator']

interface CreateOptions extends ServerOptions {
  project?: string
  scope: string[]
  days: number | null
}

export function command(context: Context): Command {
  const verb = new Command()
  const add = (name: string, summary: string) => withServer(verb.command(name).description(summary))

  add('create', 'make a key, and print it this once')
    .argument('<name>', 'a name that no key had before')
    .addOption(
      new Option('--scope <scopes...>', 'what it opens').choices(SCOPES).default(['runs:read', 'runs:write', 'infer']),
    )
    .option('--project <name>', 'the project whose runs and secrets it sees (default: "default")')
    .option('--days <number>', 'until it expires, or never', days, 90)
    .action(async (name: string, { project, scope, days, ...options }: CreateOptions) => {
      const body = { name, scopes: scope, days, ...(project !== undefined && { project }) }
      const made = await connect(context, options).ask<{ key: string; view: KeyView }>('POST', 'keys', body)
      process.stderr.write(`${name}, for ${scope.join(', ')} in ${made.view.project}, ${until(made.view)}:\n`)
      process.stdout.write(`${made.key}\n`)
    })
  add('list', 'list keys, also those that have ended')
    .option('--json', 'as JSON')
    .action(async ({ json, ...options }: ServerOptions & { json?: boolean }) => {
      const { keys } = await connect(context, options).ask<{ keys: KeyView[] }>('GET', 'keys')
      if (json) process.stdout.write(`${JSON.stringify(keys, null, 2)}\n`)
      else
        process.stdout.write(
          columns(
            ['NAME', 'PROJECT', 'SCOPES', 'BEGINS', 'USED', ''],
            keys.map((key) => [
              key.name,
              key.project,
              key.scopes.join(','),
              key.hint,
              key.lastUsedAt ?? 'never',
              until(key),
            ]),
          ),
        )
    })
  add('revoke', 'end a key; what is open with it ends within five seconds')
    .argument('<name>')
    .action(async (name: string, options: ServerOptions) => {
      await connect(context, options).ask('DELETE', `keys/${encodeURIComponent(name)}`)
      process.stdout.write(`${name} is revoked.\n`)
    })
  add('link', 'make a link that signs a page in once').action(async (options: ServerOptions) => {
    const { url } = await connect(context, options).ask<{ url: string }>('POST', 'session/links')
    process.stdout.write(`${url}\n`)
  })
  add('audit', 'read who wrote what, newest first')
    .option('--key <name>', 'of one key alone')
    .option('--limit <number>', 'how many', '50')
    .action(async ({ key, limit, ...options }: ServerOptions & { key?: string; limit: string }) => {
      const query = new URLSearchParams({ limit, ...(key !== undefined && { key }) })
      const { entries } = await connect(context, options).ask<{ entries: AuditView[] }>('GET', `audit?${query}`)
      process.stdout.write(
        columns(
          ['AT', 'KEY', 'PROJECT', 'STATUS', 'ACTION', 'PATH', 'FROM'],
          entries.map((entry) => [
            ...[entry.at, entry.key, entry.project, String(entry.status), entry.action, entry.path, entry.address],
          ]),
        ),
      )
    })
  return verb
}

function until({ revokedAt, expiresAt }: KeyView): string {
  if (revokedAt !== null) return `revoked ${revokedAt}`
  if (expiresAt === null) return 'never expires'
  return Date.parse(expiresAt) > Date.now() ? `until ${expiresAt}` : `expired ${expiresAt}`
}

function days(text: string): number | null {
  if (text === 'never') return null
  const number = Number(text)
  if (number > 0 && number <= 36_500) return number
  throw new InvalidArgumentError('Days are a number above 0, or never.')
}
