// `rollout-lab serve`: the page and the server, on one port, until Ctrl-C. Of this machine alone unless server.toml says
// otherwise.

import { existsSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { Command, InvalidArgumentError } from 'commander'
import { dataFolder } from './client.ts'
import { type Context, Refusal } from './verb.ts'

interface Options {
  config?: string
  check?: boolean
  init?: boolean
  port?: number
}

const NEW_CONFIG = 'server.toml'

export function command(context: Context): Command {
  return new Command()
    .option('--config <file>', 'what an operator decides about the server: server.toml')
    .option('--check', 'say what is wrong with the config, have each cluster run a small job, and end')
    .option('--init', `make the first operator key, and a ${NEW_CONFIG} to begin with, and end`)
    .option('--port <number>', 'the port; the next free one when it is taken (default: 5173)', port)
    .action(async (options: Options) => {
      if (options.init) return init(context, options)
      const config = await configOf(context, options)
      if (options.check) return check(context, config.current, config.file)
      await run(context, config)
    })
}

async function run(context: Context, config: Awaited<ReturnType<typeof configOf>>) {
  const { serve } = await import('../server/main.ts')
  const { runsSetup } = await import('../server/setup.ts')
  await context.buildPage()
  const { server: table } = config.current
  const stopped = new Promise<void>((resolve) => {
    process.once('SIGINT', resolve)
    process.once('SIGTERM', resolve)
  })
  const server = await refusing(async () =>
    serve({
      webRoot: join(context.root, 'dist/web'),
      port: table.port,
      runs: runsSetup(config.current, context.root),
      config,
    }),
  )
  process.stdout.write(`Rollout Lab is at ${server.link}\n`)
  const { folder } = config.current.store
  const where = folder === dataFolder(context) ? '' : `ROLLOUT_LAB_DATA=${folder} `
  process.stderr.write(
    `The link signs one page in; \`${where}rollout-lab keys link\` makes another. Ctrl-C stops the server.\n`,
  )
  await stopped
  // Whoever asks twice does not want to wait.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
  await server.close(config.current.server.shutdown_seconds)
}

async function configOf(context: Context, { config: file, port }: Options) {
  const { DEFAULT_CONFIG, readConfig } = await import('../server/config.ts')
  const { ConfigFile } = await import('../server/configFile.ts')
  const given = await refusing(async () => (file === undefined ? null : readConfig(file)))
  const quiet = { ...DEFAULT_CONFIG.log, level: 'warn' as const }
  const config = given ?? { ...DEFAULT_CONFIG, store: { folder: dataFolder(context) }, log: quiet }
  return new ConfigFile(file ?? null, config, (read) =>
    port === undefined ? read : { ...read, server: { ...read.server, port } },
  )
}

/** What is wrong with a config that does not show in its text: variables, folders, keys. */
async function check(context: Context, config: Awaited<ReturnType<typeof configOf>>['current'], file: string | null) {
  const { reachOf } = await import('../server/access/config.ts')
  const { databaseOf } = await import('../server/store/config.ts')
  const { readKeys } = await import('../server/secrets/keyring.ts')
  const { folder = '' } = config.store
  const { key_env, key_file = join(folder, 'secrets.key') } = config.secrets
  await refusing(async () => databaseOf(config.store))
  const keys = await refusing(() => readKeys(key_env === undefined ? { file: key_file } : { variable: key_env }))
  if (key_env !== undefined && keys.length === 0)
    throw new Refusal(
      `[secrets] key_env names the variable ${key_env}, which is not set: give it 32 random bytes as base64.`,
    )
  for (const { name, key_env: variable } of config.node) {
    if (variable !== undefined && !process.env[variable])
      throw new Refusal(`[[node]] ${name} takes its key from the variable ${variable}, which is not set.`)
  }
  const reach =
    reachOf(config.server) === 'loopback'
      ? 'of this machine alone'
      : 'reached from other machines, by whoever has a key'
  const address = `${config.server.host}:${config.server.port}`
  process.stdout.write(`${file ?? 'The defaults'}: good. A server at ${address}, ${reach}; data in ${folder}.\n`)
  if (!config.slurm && !config.ray) return
  const { checkClusters } = await import('../server/engines/clusters.ts')
  const found = await refusing(() => checkClusters(config, folder, context.root))
  for (const { ok, what, sentence } of found) process.stdout.write(`${ok ? 'ok  ' : 'NO  '} ${what}: ${sentence}\n`)
  if (found.some(({ ok }) => !ok)) context.exitCode = 1
}

async function init(context: Context, options: Options) {
  const { Access } = await import('../server/access/access.ts')
  const { firstKey } = await import('../server/access/firstKey.ts')
  const { databaseOf } = await import('../server/store/config.ts')
  const { openStore } = await import('../server/store/open.ts')
  const { NEW_SERVER_TOML } = await import('../server/newConfig.ts')
  const { writeFile } = await import('node:fs/promises')
  const file = resolve(options.config ?? NEW_CONFIG)
  if (!existsSync(dirname(file)))
    throw new Refusal(`${dirname(file)} is not there: make the folder, or name another file.`)
  if (!existsSync(file)) {
    await writeFile(file, NEW_SERVER_TOML, { flag: 'wx' })
    process.stderr.write(
      `Wrote ${file}: read it, and start with \`rollout-lab serve --config ${options.config ?? NEW_CONFIG}\`.\n`,
    )
  }
  const config = await configOf(context, { ...options, config: file })
  const { store: table } = config.current
  const store = await refusing(async () => openStore({ folder: table.folder!, url: databaseOf(table) }))
  try {
    const report = (what: string, error: unknown) => process.stderr.write(`Failed at ${what}: ${error}\n`)
    const access = await Access.open({ db: store.db, config: () => config.current, report })
    const made = await firstKey(access.keys)
    access.close()
    if ('key' in made) {
      process.stderr.write(`The first key, with the scope operator, told this once:\n`)
      process.stdout.write(`${made.key}\n`)
    } else {
      process.stderr.write(`${made.sentence}\n`)
      context.exitCode = 1
    }
  } finally {
    await store.close()
  }
}

/** What goes wrong before a server runs is the operator's to put right: its sentence alone. */
async function refusing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException
    if (error instanceof TypeError || error instanceof ReferenceError) throw error
    throw new Refusal(code ? `The server cannot start: ${message}.` : message)
  }
}

function port(text: string): number {
  const number = Number(text)
  if (Number.isInteger(number) && number >= 0 && number <= 65535) return number
  throw new InvalidArgumentError('A port is a whole number from 0 (any free one) to 65535.')
}
