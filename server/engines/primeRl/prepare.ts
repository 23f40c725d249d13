// From an attempt of a run to what lies on the shared disk for it: prime-rl's config with the folders and the resume of
// this attempt, the secrets, and a bundled model where the run trains one.

import { chmod, chown, cp, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setAt, type Table } from '../../../configs/path.ts'
import type { RunConfig } from '../../../configs/schema.ts'
import { tableToToml } from '../../../configs/write.ts'
import { compileConfig, type Draft } from '../../compile/compile.ts'
import { isBundled } from '../../compile/trainer.ts'
import { sizeOf } from '../../store/events/appendOnly.ts'
import { isNoRoom } from '../../store/events/fullDisk.ts'
import type { JobSpec } from '../engine.ts'
import { exists, type RunLayout } from './layout.ts'
import { badVariable, slug } from './names.ts'
import { secretsFile } from './script.ts'

export interface Prepared {
  config: string
  /** null for a run without secrets. */
  secrets: string | null
  /** The step from which it goes on; 0 for the first. */
  fromStep: number
  /** Bytes of metrics.jsonl that belong to earlier attempts. */
  metricsFrom: number
  /** prime-rl's attempts that are earlier ones of ours. */
  logsFrom: number
  /** In prime-rl's words. */
  table: Table
}

/** For prime-rl; the run's name as a plain word, whatever its owner calls it. */
export function compiled(config: RunConfig): Draft {
  const name = config.name === undefined ? {} : { name: slug(config.name, 'run') }
  return compileConfig({ ...config, ...name }, 'prime-rl')
}

export interface PrepareOptions {
  /** Whose the files are, where the server may give them away. */
  owner: { uid: number; gid: number } | null
  /** Where bundled models lie on this machine: `<models>/lab-tiny`. */
  models: string
  /** The checkout of prime-rl, as the nodes see it. */
  project: string
  /** Whether a run may have several nodes: then prime-rl writes its own job from its [slurm] table. */
  multiNode: boolean
}

/** Throws a sentence where the shared disk is full; called again once there is room, it begins anew. */
export async function prepare(spec: JobSpec, layout: RunLayout, options: PrepareOptions): Promise<Prepared> {
  try {
    return await prepared(spec, layout, options)
  } catch (error) {
    if (!isNoRoom(error)) throw error
    throw new Error(`There is no room left on the shared disk for ${layout.folder}: delete runs, or give it more.`, {
      cause: error,
    })
  }
}

async function prepared(spec: JobSpec, layout: RunLayout, options: PrepareOptions): Promise<Prepared> {
  const { table, findings } = compiled(spec.config)
  const refusal = findings.find(({ act }) => act === 'refuse')
  if (refusal) throw new Error(refusal.sentence)
  const folder = layout.attempt(spec.attempt)
  await mkdir(folder, { recursive: true, mode: 0o770 })
  const resumable = (await layout.checkpoints()).at(-1)
  const fresh = !resumable && (await exists(layout.output))
  setAt(table, ['output_dir'], layout.folder)
  setAt(table, ['run'], { name: slug(spec.name, spec.run.toLowerCase()), dir: 'output' })
  if (resumable) setAt(table, ['resume'], { step: resumable.step })
  else delete table.resume
  // A first part that left no checkpoint is begun again.
  if (fresh) setAt(table, ['clean'], true)
  if (isBundled(spec.config.model)) {
    if (!(await exists(join(layout.model, 'config.json')))) await stage(spec.config.model, layout, options)
    setAt(table, ['model', 'name'], layout.model)
  }
  const deployment = (table.deployment ?? {}) as Table
  if (options.multiNode && deployment.type === 'multi_node')
    table.slurm = { ...(table.slurm as Table), job_name: slug(spec.name, 'rollout-lab'), project_dir: options.project }
  // On one node the job is ours, and prime-rl must not submit another.
  else delete table.slurm
  const config = join(folder, 'config.toml')
  await writeWhole(
    config,
    Buffer.from(tableToToml(table, `Attempt ${spec.attempt} of run ${spec.run}.`)),
    0o640,
    options,
  )
  const secrets = await writeSecrets(spec, folder, options)
  const earlier = fresh ? 0 : await sizeOf(layout.metrics)
  const logs = fresh ? 0 : (await layout.logFolders()).length
  for (const each of [dirname(layout.folder), layout.folder, folder])
    if (options.owner) await chown(each, options.owner.uid, options.owner.gid)
    else if (each !== dirname(layout.folder)) await chmod(each, 0o770)
  return {
    ...{ config, secrets, fromStep: resumable?.step ?? 0, metricsFrom: earlier, logsFrom: logs, table },
  }
}

export async function writeSecrets(
  spec: Pick<JobSpec, 'secrets'>,
  folder: string,
  options: PrepareOptions,
): Promise<string | null> {
  const names = Object.keys(spec.secrets)
  if (names.length === 0) return null
  const bad = names.map(badVariable).find((why) => why !== null)
  if (bad) throw new Error(`A secret cannot go along: ${bad}`)
  const path = join(folder, 'secrets')
  await writeWhole(path, secretsFile(spec.secrets), 0o600, options)
  return path
}

async function stage(model: string, layout: RunLayout, { models, owner }: PrepareOptions): Promise<void> {
  const partial = `${layout.model}.partial`
  await rm(partial, { recursive: true, force: true })
  await cp(join(models, model), partial, { recursive: true })
  if (owner) await chown(partial, owner.uid, owner.gid)
  await rename(partial, layout.model)
}

/** Whole or not at all, and never readable by more than `mode` says, not even for a moment. */
async function writeWhole(path: string, bytes: Buffer, mode: number, { owner }: PrepareOptions): Promise<void> {
  const partial = `${path}.partial`
  await rm(partial, { force: true })
  const file = await open(partial, 'wx', mode)
  try {
    await file.writeFile(bytes)
    if (owner) await file.chown(owner.uid, owner.gid)
    await file.datasync()
  } finally {
    await file.close()
  }
  await rename(partial, path)
}
