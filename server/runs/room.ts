// Room for runs: whether one more may be taken in, and which old ones go.

import { statfs } from 'node:fs/promises'
import { FINAL_STATES } from '../engines/engine.ts'
import type { RunsContext } from './context.ts'
import { Refused } from './problem.ts'
import { REMEMBERED_MS } from './requests.ts'
import type { Runs } from './runs.ts'

const DAY_MS = 24 * 3600 * 1000
const MEGABYTE = 1024 * 1024
/** Runs with this label stay whatever their age and size. */
export const KEEP_LABEL = 'keep'

/** Throws where the disk or the project's share of it is full. */
export async function refuseWithoutRoom(context: RunsContext, project: string): Promise<void> {
  const { freeBytes, projectBytes } = context.limits
  const disk = await statfs(context.store.folder)
  const free = disk.bavail * disk.bsize
  if (free < freeBytes) {
    throw new Refused(
      507,
      `The server's disk has ${megabytes(free)} left, and new runs are taken only above ${megabytes(freeBytes)}. Runs that are there go on; delete old ones, or ask whoever runs the server for room.`,
    )
  }
  if (projectBytes === null) return
  const used = await bytesOf(context, project)
  if (used >= projectBytes) {
    throw new Refused(
      507,
      `The runs of project ${project} take ${megabytes(used)} of the ${megabytes(projectBytes)} that it may: delete some.`,
    )
  }
}

/** Deletes the runs that are too old, and the oldest of those that are too much together; finishes broken-off deletes. */
export async function tidy(runs: Runs): Promise<string[]> {
  const { context } = runs
  const { db } = context.store
  const gone: string[] = []
  for (const { id } of await db.selectFrom('run').select('id').where('deleted_at', 'is not', null).execute())
    await runs.erase(id)
  await db
    .deleteFrom('idempotency')
    .where('created_at', '<', Date.now() - REMEMBERED_MS)
    .execute()
  const ended = await db
    .selectFrom('run')
    .select(['id', 'ended_at', 'bytes', 'labels_json', 'state'])
    .where('state', 'in', [...FINAL_STATES])
    .where('deleted_at', 'is', null)
    .orderBy('ended_at')
    .execute()
  const { keepDays, keepBytes } = context.limits
  let total = keepBytes === null ? 0 : await bytesOf(context, null)
  for (const { id, ended_at, bytes, labels_json, state } of ended) {
    const old = keepDays !== null && (ended_at ?? 0) < Date.now() - keepDays * DAY_MS
    const surplus = keepBytes !== null && total > keepBytes
    if (!(old || surplus) || (JSON.parse(labels_json) as string[]).includes(KEEP_LABEL)) continue
    const { numUpdatedRows } = await db
      .updateTable('run')
      .set({ deleted_at: Date.now() })
      .where('id', '=', id)
      .where('state', '=', state)
      .executeTakeFirst()
    if (numUpdatedRows === 0n) continue
    await runs.erase(id)
    total -= bytes
    gone.push(id)
  }
  return gone
}

async function bytesOf(context: RunsContext, project: string | null): Promise<number> {
  let query = context.store.db.selectFrom('run').select((eb) => eb.fn.sum('bytes').as('bytes'))
  if (project !== null) query = query.where('project', '=', project)
  return Number((await query.executeTakeFirst())?.bytes ?? 0)
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / MEGABYTE)} MB`
}
