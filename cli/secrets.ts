// `rollout-lab secrets`: variables that runs are given and nobody is told. They come from a file or standard input, never
// from the command line, which other programs can read.

import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { Command } from 'commander'
import type { SecretSetView } from '../server/secrets/secrets.ts'
import { connect, type ServerOptions, withServer } from './client.ts'
import { columns } from './columns.ts'
import { type Context, Refusal } from './verb.ts'

interface Options extends ServerOptions {
  project?: string
}

export function command(context: Context): Command {
  const verb = new Command()
  const add = (name: string, summary: string) =>
    withServer(verb.command(name).description(summary)).option(
      '--project <name>',
      'another project than the key’s; for operators',
    )
  const path = (project: string | undefined, name = '') =>
    `secrets${name && `/${encodeURIComponent(name)}`}${project === undefined ? '' : `?project=${encodeURIComponent(project)}`}`

  add('upload', 'put a set in the place of the one of this name')
    .argument('<name>', 'what a config calls it: env_file = ["NAME"]')
    .argument('<file>', 'lines NAME=value, as in .env; - for standard input')
    .action(async (name: string, file: string, { project, ...options }: Options) => {
      const variables = variablesOf(file)
      const { set } = await connect(context, options).ask<{ set: SecretSetView }>('PUT', path(project, name), {
        variables,
      })
      process.stdout.write(`${name} of ${set.project} holds ${set.variables.join(', ')}.\n`)
    })
  add('list', 'list sets and the names of their variables').action(async ({ project, ...options }: Options) => {
    const { sets } = await connect(context, options).ask<{ sets: SecretSetView[] }>('GET', path(project))
    const rows = sets.map((set) => [set.name, set.project, set.variables.join(','), set.updatedAt, set.updatedBy])
    process.stdout.write(columns(['NAME', 'PROJECT', 'VARIABLES', 'UPDATED', 'BY'], rows))
  })
  add('delete', 'delete a set')
    .argument('<name>')
    .action(async (name: string, { project, ...options }: Options) => {
      await connect(context, options).ask('DELETE', path(project, name))
      process.stdout.write(`${name} is deleted.\n`)
    })
  withServer(verb.command('rotate').description('seal every set of the server with a new key')).action(
    async (options: ServerOptions) => {
      const done = await connect(context, options).ask<{ sets: number; sentence: string }>('POST', 'secrets/rotate')
      process.stdout.write(`${done.sets} ${done.sets === 1 ? 'set is' : 'sets are'} sealed anew. ${done.sentence}\n`)
    },
  )
  return verb
}

function variablesOf(file: string): Record<string, string> {
  let text: string
  try {
    text = readFileSync(file === '-' ? 0 : file, 'utf8')
  } catch (error) {
    throw new Refusal(`${file} cannot be read: ${(error as Error).message}.`)
  }
  const variables = parseEnv(text) as Record<string, string>
  if (Object.keys(variables).length === 0) throw new Refusal(`${file} holds no variable: expected lines NAME=value.`)
  return variables
}
