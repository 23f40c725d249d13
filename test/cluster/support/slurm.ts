// A real Slurm: controller, slurmrestd and pretend nodes with pretend GPUs, on loopback, in a folder of its own, with a
// munged of its own. Needs root and Debian's packages.

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { accountOf, begin, ENVIRONMENT, type MachineFolder, versionOf } from './machine.ts'
import { freePorts } from './ports.ts'
import { descendantsOf, endProcessesOf } from './processes.mjs'
import { isNewer, slurmFiles } from './slurmConf.ts'
import { until } from './until.ts'

const run = promisify(execFile)

const PROGRAMS = ['slurmctld', 'slurmd', 'slurmrestd', 'munged', 'setpriv', 'useradd']

/** Why no Slurm can be tried here; null where it can. */
export function missingForSlurm(): string | null {
  if (process.getuid?.() !== 0) return 'Slurm is started as root only'
  const missing = PROGRAMS.filter(
    (name) => !['/usr/sbin', '/usr/bin', '/sbin', '/bin'].some((dir) => existsSync(join(dir, name))),
  )
  if (missing.length > 0)
    return `${missing.join(', ')} missing: apt-get install slurm-wlm slurmrestd munge slurm-wlm-jwt-plugin`
  return null
}

export interface SlurmHost {
  /** `22.05`. */
  version: string
  url: string
  /** A copy of the JWT key that only this process may read. */
  keyFile: string
  /** Whose jobs they are. */
  user: string
  userId: number
  /** A folder that server and jobs see. */
  shared: string
  conf: string
  nodes: string[]
  stopController(): Promise<void>
  startController(): Promise<void>
  /** kill -9 of a node's daemon and all that it runs. */
  killNode(name: string): Promise<void>
  startNode(name: string): Promise<void>
  scontrol(...args: string[]): Promise<string>
  stop(): Promise<void>
}

export interface SlurmStart {
  nodes?: number
  gpus?: number
  /** Where its programs are. */
  machine?: MachineFolder
}

/** Throws, with nothing left running, where it does not come up; the sentence ends with what its daemons said. */
export async function startSlurm({ nodes = 2, gpus = 2, machine = '' }: SlurmStart = {}): Promise<SlurmHost> {
  const root = await mkdtemp(join(tmpdir(), 'rollout-lab-slurm-'))
  try {
    return await start(root, nodes, gpus, machine)
  } catch (error) {
    const said = await lastSaid(join(root, 'log'))
    await endProcessesOf(root)
    await rm(root, { recursive: true, force: true, maxRetries: 3 })
    throw new Error(`${(error as Error).message.trim()}${said && ` It said: ${said}`}`, { cause: error })
  }
}

async function start(root: string, nodes: number, gpus: number, machine: MachineFolder): Promise<SlurmHost> {
  await chmod(root, 0o755)
  const version = await versionOf(machine)
  const [ctl, rest, ...slurmd] = await freePorts(2 + nodes)
  const names = Array.from({ length: nodes }, (_, i) => `n${i}`)
  const conf = join(root, 'slurm.conf')
  const options = { env: { ...ENVIRONMENT, SLURM_CONF: conf } }
  const call = (program: string, args: string[]) => run(...begin(machine, program, args), options)
  for (const folder of ['state', 'log', 'run', 'dev', 'shared']) await mkdir(join(root, folder))
  for (const name of names) await mkdir(join(root, `spool.${name}`))
  const host = hostname().split('.')[0]
  const files = slurmFiles({ root, host, version, ctl, names, slurmd, gpus })
  for (const [name, text] of Object.entries(files)) await writeFile(join(root, name), text)
  for (let i = 0; i < nodes * gpus; i++) await writeFile(join(root, `dev/gpu${i}`), '')
  const slurm = await accountOf(machine, 'slurm')
  const user = 'labjobs'
  const account = await accountOf(machine, user, true)
  const api = await accountOf(machine, 'labslurmapi', true)
  const key = crypto.getRandomValues(new Uint8Array(32))
  await writeFile(join(root, 'jwt_hs256.key'), key, { mode: 0o600 })
  const keyFile = join(root, 'server.key')
  await writeFile(keyFile, key, { mode: 0o600 })
  await writeFile(join(root, 'munge.key'), crypto.getRandomValues(new Uint8Array(128)), { mode: 0o600 })
  for (const path of ['jwt_hs256.key', 'munge.key', 'state', 'log', 'run'])
    await chown(join(root, path), slurm.uid, slurm.gid)
  await chown(join(root, 'shared'), account.uid, account.gid)
  const as = ({ uid, gid }: { uid: number; gid: number }) => [
    ...['--reuid', String(uid), '--regid', String(gid), '--clear-groups'],
  ]
  const at = (name: string) => join(root, 'run', name)

  await call('setpriv', [
    ...[...as(slurm), 'munged', '--num-threads=2', `--key-file=${root}/munge.key`, `--socket=${at('munge.socket')}`],
    ...[`--pid-file=${at('munged.pid')}`, `--seed-file=${at('munged.seed')}`, `--log-file=${root}/log/munged.log`],
  ])
  const daemons = new Map<string, number>()
  const pidOf = async (name: string) => Number((await readFile(at(`${name}.pid`), 'utf8')).trim())
  const startController = async () => {
    await call('slurmctld', ['-f', conf])
    await until(async () => (await call('scontrol', ['ping'])).stdout.includes('UP'), 'slurmctld answers')
    daemons.set('slurmctld', await pidOf('slurmctld'))
  }
  const startNode = async (name: string) => {
    await call('slurmd', ['-f', conf, '-N', name])
    await until(async () => existsSync(at(`slurmd.${name}.pid`)), `slurmd ${name} runs`)
    daemons.set(name, await pidOf(`slurmd.${name}`))
  }
  await startController()
  for (const name of names) await startNode(name)
  const plugins = isNewer(version) ? ['-s', 'openapi/slurmctld'] : ['-s', 'openapi/v0.0.38']
  const restd: ChildProcess = spawn(
    ...begin(machine, 'setpriv', [
      ...[...as(api), 'slurmrestd', '-a', 'rest_auth/jwt', ...plugins, `127.0.0.1:${rest}`],
    ]),
    { env: { ...options.env, SLURM_JWT: 'daemon' }, stdio: 'ignore' },
  )
  const url = `http://127.0.0.1:${rest}`
  await until(async () => (await fetch(`${url}/openapi/v3`)).status > 0, 'slurmrestd answers')
  await until(async () => {
    const { stdout } = await call('sinfo', ['-h', '-N', '-o', '%T'])
    return (
      stdout
        .trim()
        .split('\n')
        .filter((state) => state === 'idle').length === nodes
    )
  }, 'all nodes are idle')

  return {
    ...{ version, url, keyFile, user, userId: account.uid, shared: join(root, 'shared'), conf, nodes: names },
    startController,
    startNode,
    async stopController() {
      await end(daemons.get('slurmctld'))
      daemons.delete('slurmctld')
    },
    async killNode(name) {
      const pid = daemons.get(name)
      daemons.delete(name)
      const steps = await stepsOf(root, name)
      const jobs = steps.flatMap(descendantsOf)
      // Whoever could tell the controller of a job's end dies before the job.
      for (const each of [pid, ...steps, ...jobs]) await end(each, 'SIGKILL')
      await rm(at(`slurmd.${name}.pid`), { force: true })
    },
    async scontrol(...args) {
      return (await call('scontrol', args)).stdout
    },
    async stop() {
      // What does not end when it is asked to is ended with the rest.
      for (const pid of [restd.pid, ...names.map((name) => daemons.get(name)), daemons.get('slurmctld')])
        await end(pid).catch(() => {})
      await endProcessesOf(root)
      await rm(root, { recursive: true, force: true, maxRetries: 3 })
    },
  }
}

async function end(pid: number | undefined, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  if (pid === undefined) return
  try {
    process.kill(pid, signal)
  } catch {
    return
  }
  await until(async () => !existsSync(`/proc/${pid}`), `process ${pid} ends`, 20_000)
}

/** The last complaint in each log. */
async function lastSaid(folder: string): Promise<string> {
  const names = await readdir(folder).catch(() => [] as string[])
  const logs = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8').catch(() => '')))
  const complaints = logs.map((log) => log.split('\n').findLast((line) => /fatal|error/i.test(line)) ?? '')
  return complaints.filter((line) => line !== '').join('; ')
}

/** Every slurmstepd of a node, by the log file of the node that it holds open, wherever that is mounted. */
async function stepsOf(root: string, name: string): Promise<number[]> {
  const { stdout } = await run('sh', [
    '-c',
    'for c in $(grep -lsx slurmstepd /proc/[0-9]*/comm); do p=$(dirname "$c"); ls -l "$p/fd" 2>/dev/null | grep -q -- "-> .*$1$" && basename "$p"; done; true',
    'sh',
    join(root, 'log', `slurmd.${name}.log`),
  ])
  return stdout.trim().split('\n').filter(Boolean).map(Number)
}
