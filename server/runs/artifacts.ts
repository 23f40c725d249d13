// What a run has left, moved from its engine into the artifact store, where it outlives both.

import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import type { Engine } from '../engines/engine.ts'
import { crashPoint } from '../store/crashPoint.ts'
import { newId } from '../store/ids.ts'
import type { ArtifactRow } from '../store/tables/runs.ts'
import type { RunsContext } from './context.ts'
import type { ArtifactView } from './views.ts'

/** Brings the artifacts of a run to what the engine has of it now: new files in, pruned checkpoints out. */
export async function publish(context: RunsContext, engine: Engine, run: string, attempt: number): Promise<void> {
  const { db } = context.store
  const files = await engine.files(run)
  const known = await db.selectFrom('artifact').selectAll().where('run_id', '=', run).execute()
  const same = (file: { kind: string; step: number; name: string }) => (row: ArtifactRow) =>
    row.kind === file.kind && row.step === file.step && row.name === file.name
  for (const file of files) {
    const before = known.find(same(file))
    // A checkpoint is written once; what stands at the end of a run is written again by each attempt.
    if (before && (file.kind === 'checkpoint' || (await isSame(before, file.path)))) continue
    const place = before?.place ?? `${run}/${newId()}-${safe(file.name)}`
    crashPoint('artifact:before-put')
    const { bytes, sha256 } = await context.artifacts.put(place, file.path)
    crashPoint('artifact:before-row')
    const row = { attempt, bytes, sha256, place, created_at: Date.now() }
    await db
      .insertInto('artifact')
      .values({ id: newId(), run_id: run, kind: file.kind, step: file.step, name: file.name, ...row })
      .onConflict((conflict) => conflict.columns(['run_id', 'kind', 'step', 'name']).doUpdateSet(row))
      .execute()
  }
  for (const row of known) {
    if (row.kind !== 'checkpoint' || files.some((file) => same(file)(row))) continue
    await db.deleteFrom('artifact').where('id', '=', row.id).execute()
    await context.artifacts.remove(row.place)
  }
}

export async function artifactsOf(context: RunsContext, run: string): Promise<ArtifactView[]> {
  const rows = await context.store.db
    .selectFrom('artifact')
    .selectAll()
    .where('run_id', '=', run)
    .orderBy('kind')
    .orderBy('step')
    .orderBy('name')
    .execute()
  return rows.map((row) => ({
    id: row.id,
    kind: row.kind,
    step: row.step,
    name: row.name,
    bytes: row.bytes,
    sha256: row.sha256,
    attempt: row.attempt,
    createdAt: row.created_at,
  }))
}

async function isSame(row: ArtifactRow, path: string): Promise<boolean> {
  if ((await stat(path)).size !== row.bytes) return false
  const { createHash } = await import('node:crypto')
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk)
  return hash.digest('hex') === row.sha256
}

function safe(name: string): string {
  return name.replace(/[^A-Za-z0-9._-]/g, '_')
}
