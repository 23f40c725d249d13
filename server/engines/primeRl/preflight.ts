// `rollout-lab serve --check`: whether a cluster can do what a run will ask of it, found out by a job that looks around on
// its node and writes what it finds to the shared disk. Each finding is a sentence; a bad one says the mend.

import { chown, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isFinal } from '../engine.ts'
import type { FullSizeOptions } from './engine.ts'
import type { Scheduler, Sighting } from './scheduler.ts'
import { scriptEnvironment } from './script.ts'

export interface CheckResult {
  ok: boolean
  /** What was looked at, in a few words. */
  what: string
  sentence: string
}

/** The commit of prime-rl that configs are written for. */
const PRIME_RL_COMMIT = '559b447'

/** The same bytes for every check: prints what a node sees, as lines of `key=value`. */
const LOOK_AROUND = `#!/bin/bash
# rollout-lab: looks around on a node.
cd -- "$ROLLOUT_LAB_FOLDER" || exit 78
date +%s > started
{
  echo "time=$(date +%s)"
  echo "host=$(hostname)"
  echo "user=$(id -un)"
  [ -d "$ROLLOUT_LAB_PROJECT" ] && echo "project=yes"
  [ -x "$ROLLOUT_LAB_COMMAND" ] && echo "command=yes"
  echo "commit=$(git -C "$ROLLOUT_LAB_PROJECT" rev-parse HEAD 2>/dev/null)"
  echo "gpus=\${SLURM_GPUS_ON_NODE:-$(nvidia-smi -L 2>/dev/null | wc -l)}"
  [ -r private ] && echo "private=yes"
  [ -f "$ROLLOUT_LAB_CONFIG" ] && echo "read=$(cat -- "$ROLLOUT_LAB_CONFIG")"
} > found.partial
mv found.partial found
`

export async function checkCluster(
  scheduler: Scheduler,
  options: FullSizeOptions,
  patienceMs = 120_000,
): Promise<CheckResult[]> {
  const name = scheduler.title
  const results: CheckResult[] = []
  const add = (ok: boolean, what: string, sentence: string) => results.push({ ok, what: `${name}: ${what}`, sentence })

  const problem = await scheduler.problem()
  if (problem !== null) {
    add(false, 'answers', problem)
    return results
  }
  add(true, 'answers', `${name} answers.`)

  const stamp = `${Date.now()}-${Math.random().toString(36).slice(2, 8)}`
  const folder = join(options.runsRoot, `.check-${stamp}`)
  const token = `here-${stamp}`
  try {
    await mkdir(options.runsRoot, { mode: 0o770 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
    await mkdir(folder, { mode: 0o770 })
    await writeFile(join(folder, 'config'), token, { mode: 0o640 })
    await writeFile(join(folder, 'private'), token, { mode: 0o600 })
    if (options.owner)
      for (const each of [dirname(folder), folder, join(folder, 'config'), join(folder, 'private')])
        await chown(each, options.owner.uid, options.owner.gid)
  } catch (error) {
    add(
      false,
      'shared disk',
      `This server cannot write to runs_root = "${options.runsRoot}": ${(error as Error).message}. Mount the shared disk there, or let the server's user write to it.`,
    )
    return results
  }
  add(true, 'shared disk', `This server writes to ${options.runsRoot}.`)

  try {
    const job = await runProbe(scheduler, options, folder, stamp, patienceMs)
    if (typeof job === 'string') {
      add(false, 'a job', job)
      return results
    }
    const found = await readFound(folder)
    if (!found) {
      const why = job.reason ? ` ${job.reason}` : ''
      add(
        false,
        'a job',
        `A small job ran (${job.state}${job.exitCode === null ? '' : `, code ${job.exitCode}`}) and left nothing in ${folder}.${why} The job's user must be able to write to runs_root, and it must be the same disk on this server and on the node.`,
      )
      return results
    }
    add(true, 'a job', `A small job ran on ${found.host ?? 'a node'} as ${found.user ?? 'its user'} and was read back.`)
    add(
      found.read === token,
      'reads',
      found.read === token
        ? 'The node reads what this server writes.'
        : `The node does not read what this server writes below ${options.runsRoot}: give the job's user the group of the server.`,
    )
    add(
      found.private === 'yes',
      'secrets',
      found.private === 'yes'
        ? 'The job reads a file that is for its user alone.'
        : 'The job cannot read a file that is for the user of this server alone, so secrets cannot be handed over: run the server as the user of the jobs, or as root with owner set.',
    )
    const command = options.command ?? join(options.project, '.venv/bin/rl')
    add(
      found.command === 'yes',
      'prime-rl',
      found.command === 'yes'
        ? `${command} is there.`
        : found.project === 'yes'
          ? `${command} is not there or cannot be run on the node: run \`uv sync --all-extras\` in ${options.project}.`
          : `${options.project} is not there on the node: clone prime-rl to it, or set project to where it is.`,
    )
    if (found.commit)
      add(
        found.commit.startsWith(PRIME_RL_COMMIT),
        'version',
        found.commit.startsWith(PRIME_RL_COMMIT)
          ? `prime-rl is at ${PRIME_RL_COMMIT}, for which configs are written.`
          : `prime-rl is at ${found.commit.slice(0, 7)}; configs are written for ${PRIME_RL_COMMIT}, and another version may refuse them: git checkout ${PRIME_RL_COMMIT}.`,
      )
    const skew = Math.abs(Number(found.time) * 1000 - (await stat(join(folder, 'found'))).mtimeMs)
    const own = Math.abs(Number(found.time) * 1000 - Date.now())
    add(
      own < 60_000 && skew < 60_000,
      'clocks',
      own < 60_000 && skew < 60_000
        ? 'The clocks agree.'
        : `The node's clock differs from this server's by ${Math.round(own / 1000)} seconds: set both by NTP, or tokens and times will be wrong.`,
    )
    add(
      Number(found.gpus) > 0,
      'GPUs',
      Number(found.gpus) > 0
        ? `The job was given ${found.gpus} GPU${found.gpus === '1' ? '' : 's'}.`
        : 'The job was given no GPU: name a partition with GPUs, and have gres/gpu configured.',
    )
  } finally {
    await rm(folder, { recursive: true, force: true }).catch(() => {})
  }
  return results
}

async function runProbe(
  scheduler: Scheduler,
  options: FullSizeOptions,
  folder: string,
  stamp: string,
  patienceMs: number,
): Promise<Sighting | string> {
  const { project, command = join(project, '.venv/bin/rl'), environment = {} } = options
  const data = {
    project,
    folder,
    output: folder,
    config: join(folder, 'config'),
    secrets: '',
    command,
    step: 'train' as const,
  }
  let id = ''
  try {
    await scheduler.launch(
      {
        ...{
          mark: `rollout-lab:check-${stamp}`,
          name: 'rollout-lab-check',
          script: LOOK_AROUND,
          folder,
          nodes: 1,
          gpus: 1,
        },
        ...{ environment: { ...environment, ...scriptEnvironment(data) }, tables: {} },
      },
      async (given) => {
        id = given
      },
    )
    const end = Date.now() + patienceMs
    for (;;) {
      const job = await scheduler.look(id, true)
      if (!job) return `${scheduler.title} took a small job and does not know it any more.`
      if (isFinal(job.state)) return job
      if (Date.now() > end) {
        await scheduler.cancel(id, 'now')
        return `A small job did not end within ${Math.round(patienceMs / 1000)} seconds: it is ${job.state}. ${job.reason ?? ''}`.trim()
      }
      await new Promise((resolve) => setTimeout(resolve, 500))
    }
  } catch (error) {
    return (error as Error).message
  }
}

/** The shared disk may be a little behind the end of the job. */
async function readFound(folder: string): Promise<Record<string, string> | null> {
  for (let tries = 0; tries < 20; tries++) {
    const text = await readFile(join(folder, 'found'), 'utf8').catch(() => null)
    if (text !== null)
      return Object.fromEntries(
        text
          .split('\n')
          .filter((line) => line.includes('='))
          .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
      )
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
  return null
}
