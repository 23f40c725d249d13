// A real Slurm on this machine: controller, slurmrestd and pretend nodes with pretend GPUs, on loopback, in a folder of its
// own. Needs root and Debian's packages; says so in a sentence where they are missing. Starts munged if nobody has.

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

const PROGRAMS = ['slurmctld', 'slurmd', 'slurmrestd', 'munged', 'setpriv', 'useradd']

/** Why no Slurm can be started here; null where it can. */
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

export async function startSlurm({ nodes = 2, gpus = 2 } = {}): Promise<SlurmHost> {
  const root = await mkdtemp(join(tmpdir(), 'rollout-lab-slurm-'))
  await chmod(root, 0o755)
  const [ctl, rest, ...slurmd] = await freePorts(2 + nodes)
  const names = Array.from({ length: nodes }, (_, i) => `n${i}`)
  const conf = join(root, 'slurm.conf')
  const env = { ...process.env, SLURM_CONF: conf }
  for (const folder of ['state', 'log', 'run', 'dev', 'shared']) await mkdir(join(root, folder))
  for (const name of names) await mkdir(join(root, `spool.${name}`))
  const host = hostname().split('.')[0]
  await writeFile(conf, configuration({ root, host, ctl, names, slurmd, gpus }))
  await writeFile(
    join(root, 'gres.conf'),
    names
      .map((name, i) => `NodeName=${name} Name=gpu Type=fake File=${root}/dev/gpu[${i * gpus}-${(i + 1) * gpus - 1}]\n`)
      .join(''),
  )
  for (let i = 0; i < nodes * gpus; i++) await writeFile(join(root, `dev/gpu${i}`), '')
  const slurm = await userOf('slurm')
  const user = 'labjobs'
  const account = await userOf(user, true)
  const api = await userOf('labslurmapi', true)
  const key = crypto.getRandomValues(new Uint8Array(32))
  await writeFile(join(root, 'jwt_hs256.key'), key, { mode: 0o600 })
  const keyFile = join(root, 'server.key')
  await writeFile(keyFile, key, { mode: 0o600 })
  for (const path of ['jwt_hs256.key', 'state', 'log', 'run']) await chown(join(root, path), slurm.uid, slurm.gid)
  await chown(join(root, 'shared'), account.uid, account.gid)

  await startMunge()
  const daemons = new Map<string, number>()
  const pidOf = async (name: string) => Number((await readFile(join(root, 'run', `${name}.pid`), 'utf8')).trim())
  const startController = async () => {
    await run('slurmctld', ['-f', conf], { env })
    await until(async () => (await run('scontrol', ['ping'], { env })).stdout.includes('UP'), 'slurmctld answers')
    daemons.set('slurmctld', await pidOf('slurmctld'))
  }
  const startNode = async (name: string) => {
    await run('slurmd', ['-f', conf, '-N', name], { env })
    await until(async () => existsSync(join(root, 'run', `slurmd.${name}.pid`)), `slurmd ${name} runs`)
    daemons.set(name, await pidOf(`slurmd.${name}`))
  }
  await startController()
  for (const name of names) await startNode(name)
  const restd: ChildProcess = spawn(
    'setpriv',
    [
      ...['--reuid', String(api.uid), '--regid', String(api.gid), '--clear-groups'],
      ...['slurmrestd', '-a', 'rest_auth/jwt', '-s', 'openapi/v0.0.38', `127.0.0.1:${rest}`],
    ],
    { env: { ...env, SLURM_JWT: 'daemon' }, stdio: 'ignore' },
  )
  const url = `http://127.0.0.1:${rest}`
  await until(async () => (await fetch(`${url}/openapi/v3`)).status > 0, 'slurmrestd answers')
  await until(
    async () =>
      (await run('sinfo', ['-h', '-N', '-o', '%T'], { env })).stdout
        .trim()
        .split('\n')
        .filter((s) => s === 'idle').length === nodes,
    'all nodes are idle',
  )

  const end = async (pid: number | undefined, signal: NodeJS.Signals = 'SIGTERM') => {
    if (pid === undefined) return
    try {
      process.kill(pid, signal)
    } catch {
      return
    }
    await until(async () => !existsSync(`/proc/${pid}`), `process ${pid} ends`, 20_000)
  }
  return {
    ...{ url, keyFile, user, userId: account.uid, shared: join(root, 'shared'), conf, nodes: names },
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
      const jobs = (await Promise.all(steps.map(descendants))).flat()
      // Whoever could tell the controller of a job's end dies before the job.
      for (const each of [pid, ...steps, ...jobs]) await end(each, 'SIGKILL')
      await rm(join(root, 'run', `slurmd.${name}.pid`), { force: true })
    },
    async scontrol(...args) {
      return (await run('scontrol', args, { env })).stdout
    },
    async stop() {
      await end(restd.pid)
      for (const name of names) {
        const steps = await stepsOf(root, name)
        await end(daemons.get(name))
        for (const step of steps) for (const each of [...(await descendants(step)), step]) await end(each, 'SIGKILL')
      }
      await end(daemons.get('slurmctld'))
      await rm(root, { recursive: true, force: true, maxRetries: 3 })
    },
  }
}

interface Layout {
  root: string
  host: string
  ctl: number
  names: string[]
  slurmd: number[]
  gpus: number
}

function configuration({ root, host, ctl, names, slurmd, gpus }: Layout): string {
  const node = (name: string, i: number) =>
    `NodeName=${name} NodeHostname=${host} NodeAddr=127.0.0.1 Port=${slurmd[i]} CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=2000 Gres=gpu:fake:${gpus} State=UNKNOWN`
  return `ClusterName=lab
SlurmctldHost=${host}(127.0.0.1)
SlurmUser=slurm
SlurmctldPort=${ctl}
AuthType=auth/munge
CredType=cred/munge
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=${root}/jwt_hs256.key
StateSaveLocation=${root}/state
SlurmdSpoolDir=${root}/spool.%n
SlurmctldPidFile=${root}/run/slurmctld.pid
SlurmdPidFile=${root}/run/slurmd.%n.pid
SlurmctldLogFile=${root}/log/slurmctld.log
SlurmdLogFile=${root}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MinJobAge=3600
KillWait=5
InactiveLimit=0
SlurmctldTimeout=15
SlurmdTimeout=15
MessageTimeout=10
GresTypes=gpu
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
${names.map(node).join('\n')}
PartitionName=cluster Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
`
}

async function startMunge(): Promise<void> {
  const answers = () =>
    run('sh', ['-c', 'munge -n | unmunge'])
      .then(() => true)
      .catch(() => false)
  if (await answers()) return
  const { uid, gid } = await userOf('munge')
  for (const [path, mode] of [
    ['/run/munge', 0o755],
    ['/var/log/munge', 0o700],
    ['/var/lib/munge', 0o711],
  ] as const) {
    await mkdir(path, { recursive: true })
    await chown(path, uid, gid)
    await chmod(path, mode)
  }
  await run('setpriv', ['--reuid', String(uid), '--regid', String(gid), '--clear-groups', '/usr/sbin/munged'])
  await until(answers, 'munge answers')
}

async function userOf(name: string, make = false): Promise<{ uid: number; gid: number }> {
  const entry = (await readFile('/etc/passwd', 'utf8')).split('\n').find((line) => line.startsWith(`${name}:`))
  if (entry) {
    const [, , uid, gid] = entry.split(':')
    return { uid: Number(uid), gid: Number(gid) }
  }
  if (!make) throw new Error(`There is no user ${name} here; its package makes it.`)
  await run('useradd', ['--system', '--user-group', '--no-create-home', '--shell', '/usr/sbin/nologin', name])
  return userOf(name)
}

/** Every slurmstepd of a node, by the log file of the node that it holds open. */
async function stepsOf(root: string, name: string): Promise<number[]> {
  const { stdout } = await run('sh', [
    '-c',
    'for c in $(grep -lsx slurmstepd /proc/[0-9]*/comm); do p=$(dirname "$c"); ls -l "$p/fd" 2>/dev/null | grep -q -- "-> $1$" && basename "$p"; done; true',
    'sh',
    join(root, 'log', `slurmd.${name}.log`),
  ])
  return stdout.trim().split('\n').filter(Boolean).map(Number)
}

async function descendants(pid: number): Promise<number[]> {
  const { stdout } = await run('ps', ['-o', 'pid=', '--ppid', String(pid)]).catch(() => ({ stdout: '' }))
  const children = stdout.trim().split(/\s+/).filter(Boolean).map(Number)
  return (await Promise.all(children.map(async (child) => [...(await descendants(child)), child]))).flat()
}

export async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer()
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      return server
    }),
  )
  const ports = servers.map((server) => (server.address() as { port: number }).port)
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  return ports
}

/** Asks until it holds; throws saying what did not come to pass. An error while asking means "not yet". */
export async function until(holds: () => Promise<boolean>, what: string, milliseconds = 60_000): Promise<void> {
  const end = Date.now() + milliseconds
  let last: unknown
  while (Date.now() < end) {
    try {
      if (await holds()) return
      last = undefined
    } catch (error) {
      last = error
    }
    await new Promise((resolve) => setTimeout(resolve, 150))
  }
  throw new Error(
    `Waited ${milliseconds / 1000} s, and not: ${what}.${last instanceof Error ? ` ${last.message}` : ''}`,
  )
}
