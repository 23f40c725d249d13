// The browser's run library at work, inside a page or a worker: each function is one thing that a test asks for.

import { openBrowserLibrary } from '../../workers/storage/browser.ts'
import { encodeSave } from '../../workers/storage/record.ts'
import type { CheckpointLibrary, RunWriter } from '../../workers/storage/store.ts'
import { eventsOfStep, saveOf, summaryOf } from '../storage/examples.ts'

let opened: Promise<CheckpointLibrary> | undefined
const writers = new Map<string, RunWriter>()

function library(): Promise<CheckpointLibrary> {
  opened ??= openBrowserLibrary()
  return opened
}

async function writer(run: string): Promise<RunWriter> {
  const held = writers.get(run) ?? (await (await library()).open(run))
  writers.set(run, held)
  return held
}

export async function open(run: string): Promise<void> {
  await writer(run)
}

export async function close(run: string): Promise<void> {
  await (await writer(run)).close()
  writers.delete(run)
}

/** Steps `from` to `to` of a run, each stored and saved; with `keep`, each also kept as a checkpoint of so many. */
export async function work(run: string, from: number, to: number, keep: number | null = null): Promise<void> {
  const held = await writer(run)
  await held.describe(summaryOf(run, to))
  for (let step = from; step <= to; step++) {
    await held.append(eventsOfStep(run, step))
    const files = [{ name: 'adapter_config.json', bytes: new TextEncoder().encode('{}') }]
    await held.save(saveOf(run, step, step * 10 + 3), keep === null ? null : { files, keepLast: keep, keepEvery: null })
  }
}

/** A save of so many numbers; resolves to what went wrong, or null. */
export async function saveLarge(run: string, step: number, size: number): Promise<string | null> {
  const held = await writer(run)
  try {
    await held.save(saveOf(run, step, step * 10 + 3, size), null)
    return null
  } catch (error) {
    return `${(error as Error).name}: ${(error as Error).message}`
  }
}

export async function newest(run: string) {
  const { record, notes } = await (await writer(run)).newestSave()
  return { step: record?.header.step ?? null, trainable: record ? [...record.arrays.trainable] : null, notes }
}

export async function cut(run: string, seq: number): Promise<void> {
  await (await writer(run)).cut(seq)
}

export async function whatIsThere(run: string) {
  const runs = await library()
  const { files, events, samples, list, isWritten } = {
    files: await runs.files(run),
    events: await runs.events(run),
    samples: await Promise.all([1, 2, 3].map((step) => runs.samples(run, step, 'train'))),
    list: await runs.list(),
    isWritten: await runs.isWritten(run),
  }
  return { files, seqs: events.map(({ seq }) => seq), samples, runs: list.map((summary) => summary.run), isWritten }
}

export async function checkpoint(run: string, step: number): Promise<string[]> {
  return (await (await library()).checkpoint(run, step)).map(({ name }) => name).sort()
}

export async function saves(run: string) {
  return (await library()).saves(run)
}

export async function removeCheckpoint(run: string, step: number): Promise<void> {
  await (await library()).removeCheckpoint(run, step)
}

/** A downloaded save of this step; resolves to what went wrong, or null. */
export async function takeSave(run: string, step: number): Promise<string | null> {
  try {
    await (await library()).takeSave(encodeSave(saveOf(run, step, step * 10 + 3)))
    return null
  } catch (error) {
    return (error as Error).message
  }
}

export async function remove(run: string): Promise<void> {
  await (await library()).remove(run)
}

/** Overwrites a slot with the first part of a save, as a tab killed in the middle of writing leaves it. */
export async function tear(run: string, slot: 'a' | 'b', step: number): Promise<void> {
  const root = await navigator.storage.getDirectory()
  const folder = await (await root.getDirectoryHandle('rollout-lab')).getDirectoryHandle(run)
  const stream = await (await folder.getFileHandle(`slot-${slot}`)).createWritable()
  const bytes = encodeSave(saveOf(run, step))
  await stream.write(bytes.subarray(0, bytes.length - 7))
  await stream.close()
}
