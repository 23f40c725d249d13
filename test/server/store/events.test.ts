import { appendFile, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { EventFile, type GivenEvent, type StoredLine } from '../../../server/store/events/eventFile.ts'
import { DiskFull } from '../../../server/store/events/fullDisk.ts'
import { openStore, type Store } from '../../../server/store/open.ts'
import type { GroupRecord } from '../../../workers/protocol.ts'
import { sqlite, startPostgres } from './databases.ts'

const postgres = await startPostgres()
afterAll(() => postgres?.stop())

const RUN = '01M7YCQ8CFB75GR68M95T28B12'

describe.each([sqlite, postgres].filter((database) => database !== null))(
  'the events of a run, indexed in $name',
  (database) => {
    let folder: string
    let url: string | null
    let store: Store
    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), 'rollout-lab-events-'))
      url = database.url()
      store = await openStore({ folder, url })
    })
    afterEach(async () => {
      await store.close()
      await rm(folder, { recursive: true, force: true })
    })

    const open = () => new EventFile(store.db, folder, RUN)
    const path = (name: string) => join(folder, name)

    it('are numbered from one, over batches, attempts and restarts', async () => {
      await open().append(1, [note('a'), note('b')], 'x')
      await open().append(1, [note('c')], 'y')
      const file = open()
      expect(await file.position(1)).toEqual({ seq: 3, cursor: 'y', state: null })
      expect(await file.position(2)).toEqual({ seq: 3, cursor: null, state: null })
      await file.append(2, [state('loading'), note('d')], null)
      expect(await open().position(2)).toEqual({ seq: 5, cursor: null, state: 'loading' })
      expect(await all(open())).toEqual(['1 1 a', '2 1 b', '3 1 c', '4 2 loading', '5 2 d'])
      expect(await all(open(), 3)).toEqual(['4 2 loading', '5 2 d'])
      expect(await all(open(), 99)).toEqual([])
    })

    it('keep their batches whole when many are appended at once', async () => {
      const file = open()
      await Promise.all(Array.from({ length: 20 }, (_, i) => file.append(1, [note(`${i}a`), note(`${i}b`)], String(i))))
      const lines = await all(file)
      expect(lines.map((line) => Number(line.split(' ')[0]))).toEqual(lines.map((_, i) => i + 1))
      for (let i = 0; i < lines.length; i += 2)
        expect(lines[i + 1].slice(-3)).toBe(lines[i].slice(-3).replace('a', 'b'))
    })

    it('lose a torn tail and nothing else, wherever it was torn', async () => {
      const file = open()
      await file.append(1, [note('first')], '1')
      const before = (await readFile(path('events.jsonl'))).length
      await file.append(1, [note('second'), samples(1), note('third')], '2')
      const whole = await readFile(path('events.jsonl'))
      // As it was in the database before the second batch.
      await store.db.updateTable('event_file').set({ seq: 1, indexed_bytes: before, samples_bytes: 0 }).execute()
      await store.db.deleteFrom('step_index').execute()
      for (let at = before; at < whole.length; at += 7) {
        await writeFile(path('events.jsonl'), whole.subarray(0, at))
        expect(await open().position(1)).toMatchObject({ seq: 1, cursor: '1' })
        expect(await all(open())).toEqual(['1 1 first'])
      }
      const torn = open()
      await torn.append(1, [note('again'), samples(2)], '2')
      expect(await all(open())).toEqual(['1 1 first', '2 1 again', '3 1 samples'])
      const [row] = await store.db.selectFrom('step_index').selectAll().execute()
      expect(await open().groups(row)).toEqual(groups(2))
    })

    it('bring the index up to the file after a crash between the two', async () => {
      const file = open()
      await file.append(1, [note('ünïcödé'), step(1)], '1')
      const indexed = (await readFile(path('events.jsonl'))).length
      await file.append(1, [step(2), samples(2)], '2')
      await file.append(1, [step(3)], '3')
      const expected = await store.db.selectFrom('step_index').selectAll().orderBy('seq').execute()
      await store.db.updateTable('event_file').set({ seq: 2, indexed_bytes: indexed, samples_bytes: 0 }).execute()
      await store.db.deleteFrom('step_index').where('seq', '>', 2).execute()
      expect(await open().position(1)).toMatchObject({ seq: 5, cursor: '3' })
      expect(await store.db.selectFrom('step_index').selectAll().orderBy('seq').execute()).toEqual(expected)
      expect(await open().lines(expected.filter(({ kind }) => kind === 'step'))).toMatchObject(
        [1, 2, 3].map((n) => expect.stringContaining(`"step":${n}`)),
      )
    })

    it('are found from any counter, among many and long ones', async () => {
      const file = open()
      const texts = Array.from({ length: 400 }, (_, i) => `${i} ${'x'.repeat(i === 200 ? 700_000 : (i * 37) % 2000)}`)
      for (let i = 0; i < texts.length; i += 10) await file.append(1, texts.slice(i, i + 10).map(note), String(i))
      expect((await store.db.selectFrom('event_mark').selectAll().execute()).length).toBeGreaterThan(5)
      for (const after of [0, 1, 99, 199, 200, 201, 399])
        expect((await all(open(), after)).map((line) => line.split(' ').slice(0, 3).join(' '))).toEqual(
          texts.slice(after).map((text, i) => `${after + i + 1} 1 ${text.split(' ')[0]}`),
        )
    })

    it('mark as superseded what a later attempt does again', async () => {
      const file = open()
      await file.append(1, [started(0), step(1), samples(1), step(2), evaluation(2), step(3), samples(3)], '1')
      await file.append(2, [started(2), evaluation(2), step(3)], '1')
      const rows = await store.db
        .selectFrom('step_index')
        .selectAll()
        .where('superseded', '=', 0)
        .orderBy('seq')
        .execute()
      expect(rows.map(({ attempt, kind, step }) => `${attempt} ${kind} ${step}`)).toEqual([
        ...['1 started 0', '1 step 1', '1 samples/train 1', '1 step 2'],
        ...['2 started 2', '2 evaluation 2', '2 step 3'],
      ])
    })

    it('are refused whole where the disk is full, and go on when it is not', async () => {
      const file = open()
      await file.append(1, [note('kept')], '1')
      const { rename, symlink, unlink } = await import('node:fs/promises')
      await rename(path('events.jsonl'), path('aside'))
      await symlink('/dev/full', path('events.jsonl'))
      await expect(file.append(1, [note('lost')], '2')).rejects.toThrow(DiskFull)
      await unlink(path('events.jsonl'))
      await rename(path('aside'), path('events.jsonl'))
      expect(await file.position(1)).toMatchObject({ seq: 1, cursor: '1' })
      await file.append(1, [note('told again')], '2')
      expect(await all(open())).toEqual(['1 1 kept', '2 1 told again'])
    })

    it('say so when the file was cut from outside', async () => {
      await open().append(1, [note('a'), note('b')], '1')
      await truncate(path('events.jsonl'), 10)
      await expect(open().position(1)).rejects.toThrow(/shorter than the database knows it/)
    })

    it('tell whoever listens of each batch, until he no longer does', async () => {
      const file = open()
      let told = 0
      const stop = file.onAppend(() => told++)
      await file.append(1, [note('a')], '1')
      await file.append(1, [note('b')], '2')
      stop()
      await file.append(1, [note('c')], '3')
      expect(told).toBe(2)
    })

    it('come back as they were given, whatever is in them', async () => {
      const text = fc.string({ unit: 'binary', maxLength: 60 })
      let seq = 0
      await fc.assert(
        fc.asyncProperty(fc.array(fc.array(text, { maxLength: 5 }), { maxLength: 4 }), async (batches) => {
          const from = seq
          for (const [i, batch] of batches.entries()) {
            await open().append(1, batch.map(note), `c${i}`)
            if (i % 2 === 1) await appendFile(path('events.jsonl'), '{"run":"torn')
            seq += batch.length
          }
          const read = await lines(open(), from)
          expect(read.map(({ json }) => JSON.parse(json).sentence)).toEqual(
            batches.flat().map((said) => JSON.parse(JSON.stringify(said))),
          )
        }),
        { numRuns: 25 },
      )
    })
  },
)

async function lines(file: EventFile, after = 0): Promise<StoredLine[]> {
  const found: StoredLine[] = []
  for await (const part of file.read(after)) {
    if (part.length === 0) return found
    found.push(...part)
  }
  return found
}

async function all(file: EventFile, after = 0): Promise<string[]> {
  return (await lines(file, after)).map(({ json }) => {
    const { seq, attempt, kind, sentence, state } = JSON.parse(json)
    return `${seq} ${attempt} ${sentence ?? state ?? kind}`
  })
}

const at = { time: 1, source: 'test' }

function note(sentence: string): GivenEvent {
  return { kind: 'note', level: 'info', sentence, ...at }
}

function state(name: 'loading' | 'running'): GivenEvent {
  return { kind: 'state', state: name, ...at }
}

function step(number: number): GivenEvent {
  const seconds = { ask: 0, answer: 0, judge: 0, learn: 0, total: 0 }
  return { kind: 'step', step: number, metrics: { 'reward/mean': number }, seconds, learned: true, ...at }
}

function evaluation(number: number): GivenEvent {
  return { kind: 'evaluation', step: number, metrics: {}, seconds: 1, environment: 'e', ...at }
}

function started(from: number): GivenEvent {
  return { kind: 'started', description: { step: from }, config: {}, ...at } as unknown as GivenEvent
}

function samples(number: number): GivenEvent {
  return { kind: 'samples', step: number, split: 'train', groups: groups(number), ...at }
}

function groups(number: number): GroupRecord[] {
  const group = { exampleId: number, environment: 'e', prompt: [], answer: '🎲', rollouts: [], reason: null }
  return [0, 1].map((task) => ({ task, ...group }))
}
