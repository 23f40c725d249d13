// What a cluster's job prints is read by the server, which takes out what the job was given in secret.

import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import type { Job, LogPart } from '../../../server/engines/engine.ts'
import { readMasked } from '../../../server/runs/redaction.ts'
import { redactor } from '../../../server/secrets/redact.ts'
import { SecretProblem } from '../../../server/secrets/secrets.ts'
import type { GivenEvent } from '../../../server/store/events/eventFile.ts'
import { STAND_IN } from '../engines/standInProgram.ts'
import { ScriptedEngine } from './scriptedEngine.ts'
import { runEvents, TestServer } from './server.ts'

const PEM = '-----BEGIN\ncanary-second-line\n'
const VARIABLES = { TOKEN: 'canary-é-4f1c9a', PEM, LIKE: 'canary-é-4f1c9a-and-more' }

describe('a log that grows', () => {
  it('is the same bytes however it is asked for, none of them a secret’s, each at its offset', async () => {
    const piece = fc.constantFrom(...Object.values(VARIABLES), 'canary', 'canary-é-', '-', 'é', '\n', 'ordinary words ')
    const redact = redactor(VARIABLES)
    await fc.assert(
      fc.asyncProperty(
        fc.array(piece, { maxLength: 12 }),
        fc.array(fc.tuple(fc.nat(30), fc.integer({ min: 1, max: 25 })), { maxLength: 30 }),
        async (pieces, turns) => {
          const file = Buffer.from(pieces.join(''))
          let size = 0
          let over = false
          const read = async (offset: number, most: number): Promise<LogPart> => {
            const bytes = file.subarray(offset, Math.min(size, offset + most))
            return { bytes, nextOffset: offset + bytes.length, eof: over && offset + bytes.length >= size }
          }
          let told = Buffer.alloc(0)
          for (const [more, most] of turns) {
            size = Math.min(file.length, size + more)
            const part = await readMasked(read, told.length, most, redact)
            expect(part.bytes.length).toBeLessThanOrEqual(most)
            told = Buffer.concat([told, part.bytes])
            expect(part.nextOffset).toBe(told.length)
          }
          size = file.length
          over = true
          for (let eof = false; !eof; ) {
            const part = await readMasked(read, told.length, 7, redact)
            told = Buffer.concat([told, part.bytes])
            eof = part.eof
          }
          expect(told.equals(redact.mask(file).bytes)).toBe(true)
          expect(told.length).toBe(file.length)
          for (const value of ['canary-é-4f1c9a', 'canary-second-line']) expect(told.toString()).not.toContain(value)
          for (const [i, byte] of told.entries()) expect([file[i], 42]).toContain(byte)
        },
      ),
      { numRuns: 300 },
    )
  })
})

/** Prints what it was given, says it in an event, and ends with it as its reason. */
class Telling extends ScriptedEngine {
  override capabilities = { ...new ScriptedEngine({ events: 0, batch: 1, everyMs: 1e6 }).capabilities, logs: ['job'] }

  override async get(engineId: string): Promise<Job | null> {
    const job = await super.get(engineId)
    return job && { ...job, reason: `It said ${VARIABLES.TOKEN}.` }
  }

  override async readEvents(engineId: string, cursor: string | null) {
    const read = await super.readEvents(engineId, cursor)
    const said = read.events.map(
      ({ time }): GivenEvent => ({
        kind: 'note',
        level: 'info',
        sentence: JSON.stringify(VARIABLES),
        time,
        source: 's',
      }),
    )
    return { ...read, events: said }
  }

  override async readLog(_id = '', _stream = '', offset = 0, most = 1e6): Promise<LogPart> {
    const log = Buffer.from(`before ${VARIABLES.TOKEN}\n${PEM}after\n`)
    const bytes = log.subarray(offset, offset + most)
    return { bytes, nextOffset: offset + bytes.length, eof: offset + bytes.length >= log.length }
  }
}

describe('a run of an engine that reads what others write', () => {
  let server: TestServer
  afterEach(() => server.remove())
  let variables: () => Promise<Record<string, string>> = async () => VARIABLES

  it('shows no secret in events, reasons and logs: after a restart, over a set written anew, over one deleted', async () => {
    const secrets = () => () => variables()
    const engines = async () => [new Telling({ events: 20, batch: 5, everyMs: 20 })]
    server = await TestServer.open(null, { local: null, engines, secrets })
    const { id } = await server.submit(STAND_IN, { target: 'scripted', secrets: ['keys'] })
    const run = await server.ended(id)
    expect(run.reason).toBe('It said [secret].')
    const events = runEvents(await server.follow(id))
    expect(events.filter(({ kind }) => kind === 'note')).toHaveLength(20)
    expect(JSON.stringify(events)).not.toContain('canary')
    const log = () => server.fetch(`/runs/${id}/logs/job`).then((response) => response.text())
    const masked = 'before ****************\n******************************after\n'
    expect(await log()).toBe(masked)
    variables = async () => ({ OTHER: 'another value' })
    expect(await log()).toBe(masked)
    variables = async () => VARIABLES
    await server.stop()
    await server.start()
    expect(await log()).toBe(masked)
    await server.stop()
    await server.start()
    variables = async () => {
      throw new SecretProblem(503, 'Put the key back.')
    }
    const closed = await server.fetch(`/runs/${id}/logs/job`)
    expect(closed.status).toBe(503)
    expect(await closed.text()).toContain('Put the key back.')
    variables = async () => {
      throw new SecretProblem(404, 'It was deleted.')
    }
    expect(await log()).toContain('after')
  })
})
