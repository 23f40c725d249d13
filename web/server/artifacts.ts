// What a run on the server has left, as files.

import type { ArtifactView } from '../../server/runs/views.ts'
import type { ExportedFile } from '../../workers/protocol.ts'
import { reach } from './ask.ts'
import { answer, api } from './client.ts'

export async function listArtifacts(run: string): Promise<ArtifactView[]> {
  return (await answer(api.runs[':id'].artifacts.$get({ param: { id: run } }))).artifacts
}

export async function fetchArtifacts(run: string, artifacts: ArtifactView[]): Promise<ExportedFile[]> {
  return Promise.all(
    artifacts.map(async ({ id, name }) => {
      const response = await reach(api.runs[':id'].artifacts[':artifact'].$url({ param: { id: run, artifact: id } }))
      return { name, bytes: new Uint8Array(await response.arrayBuffer()) }
    }),
  )
}

/** The adapter of the run's end, or of its newest checkpoint; empty where there is none. */
export async function adapterFiles(run: string): Promise<ExportedFile[]> {
  const all = await listArtifacts(run)
  const final = all.filter(({ kind }) => kind === 'adapter')
  if (final.length > 0) return fetchArtifacts(run, final)
  const kept = all.filter(({ kind, name }) => kind === 'checkpoint' && name.startsWith('adapter'))
  const newest = Math.max(...kept.map(({ step }) => step))
  return fetchArtifacts(
    run,
    kept.filter(({ step }) => step === newest),
  )
}
