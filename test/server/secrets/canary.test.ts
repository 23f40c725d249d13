// A canary in a secret set, through a whole run whose program prints all that it was given: looked for afterwards in every
// answer, in the log, and in every byte that the server has left on the disk.

import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ROOT } from '../../../build/paths.ts'
import { DEFAULT_CONFIG } from '../../../server/config.ts'
import { ConfigFile } from '../../../server/configFile.ts'
import { DOOR_FILE, type Door, serve } from '../../../server/main.ts'
import { bearer } from '../access/door.ts'
import { buildPrograms, type Programs, STAND_IN } from '../engines/standInProgram.ts'
import { temporary } from '../observe/temporary.ts'

const CANARY = 'canary-7d20e4"b\\é'

let programs: Programs
beforeAll(async () => {
  programs = await buildPrograms()
}, 120_000)
afterAll(() => programs.remove())

/** How a value may stand in a file: as it is, in JSON, in base64, as hex. */
const FORMS = [
  CANARY,
  JSON.stringify(CANARY).slice(1, -1),
  JSON.stringify(JSON.stringify(CANARY)).slice(3, -3),
  Buffer.from(CANARY).toString('base64').slice(0, 20),
  Buffer.from(CANARY).toString('hex'),
  'canary-7d20e4',
].map((form) => Buffer.from(form))

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())
}

describe('a canary', () => {
  it('given to a run is in no row, log, event, artifact or answer', async () => {
    const data = temporary()
    const config = new ConfigFile(null, {
      ...DEFAULT_CONFIG,
      log: { level: 'trace', file: join(data, 'server.log') },
    })
    const server = await serve({
      webRoot: data,
      port: 0,
      config,
      runs: { root: ROOT, data, local: { models: ['table'], trainer: programs.trainer } },
    })
    const { key } = JSON.parse(readFileSync(join(data, DOOR_FILE), 'utf8')) as Door
    const answers: string[] = []
    const ask = async (path: string, method = 'GET', body?: unknown) => {
      const headers = { 'content-type': 'application/json', ...bearer(key) }
      const answer = await fetch(new URL(path, server.url), {
        method,
        headers,
        body: body ? JSON.stringify(body) : null,
      })
      const text = await answer.text()
      expect(answer.ok, `${method} ${path}: ${text.slice(0, 300)}`).toBe(true)
      answers.push(JSON.stringify([...answer.headers]), text)
      return text
    }
    let id: string
    try {
      await ask('api/secrets/hub', 'PUT', { variables: { HUB_TOKEN: CANARY, SECOND: `line\n${CANARY}` } })
      const run = JSON.parse(await ask('api/runs', 'POST', { config: STAND_IN, secrets: ['hub'] })) as { id: string }
      id = run.id
      // To the end of the run.
      const events = await ask(`api/runs/${id}/events?samples=true`)
      expect(events).toContain('"state":"succeeded"')
      const log = await ask(`api/runs/${id}/logs/out`)
      // The program had both, and said so.
      expect(log).toContain('"HUB_TOKEN":"[secret]"')
      expect(log).toContain('"SECOND":"[secret]"')
      const { artifacts } = JSON.parse(await ask(`api/runs/${id}/artifacts`)) as { artifacts: { id: string }[] }
      expect(artifacts.length).toBeGreaterThan(0)
      for (const artifact of artifacts) await ask(`api/runs/${id}/artifacts/${artifact.id}`)
      for (const path of ['', '/config', '/config?format=toml', '/metrics', '/rollouts', '/rollouts?step=1'])
        await ask(`api/runs/${id}${path}`)
      for (const path of ['runs', 'secrets', 'audit', 'targets', 'openapi.json']) await ask(`api/${path}`)
      expect(await ask('metrics')).toContain('rollout_lab_runs{state="succeeded"} 1')
      await ask('api/secrets/rotate', 'POST')
    } finally {
      await server.close()
    }
    const files = filesBelow(data)
    expect(files).toEqual(
      expect.arrayContaining([join(data, 'rollout-lab.db'), join(data, 'server.log'), join(data, 'secrets.key')]),
    )
    expect(files.filter((file) => file.includes(id)).length).toBeGreaterThan(3)
    expect(files.filter((file) => /secrets\.env/.test(file))).toEqual([])
    for (const form of FORMS) {
      for (const answer of answers) expect(answer).not.toContain(form.toString())
      for (const file of files) expect(readFileSync(file).includes(form), `${form} in ${file}`).toBe(false)
    }
  }, 120_000)
})
