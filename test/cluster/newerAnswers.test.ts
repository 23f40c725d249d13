// What slurmrestd of Slurm 24.11.5 (v0.0.42) was heard to answer, and what the client makes of it; it runs for real in
// test/cluster/live with `--newer`.

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { SlurmClient } from '../../server/engines/slurm/client.ts'
import type { SlurmJobSpec } from '../../server/engines/slurm/job.ts'

type Answer = [status: number, body: unknown]

let server: Server
let client: SlurmClient
let asked: { method: string; path: string; token: string }[]
let answers: Record<string, Answer>

beforeEach(async () => {
  asked = []
  answers = { 'GET /openapi/v3': [200, { paths: { '/slurm/v0.0.42/jobs/': {} } }] }
  server = createServer((request, response) => {
    const [path] = (request.url ?? '').split('?')
    const token = String(request.headers['x-slurm-user-token'])
    asked.push({ method: request.method ?? '', path, token })
    const [status, body] = answers[`${request.method} ${path} ${token}`] ??
      answers[`${request.method} ${path}`] ?? [404, {}]
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  client = new SlurmClient({ url, user: 'lab', token: async ({ fresh = false } = {}) => (fresh ? 'new' : 'old') })
})
afterEach(() => new Promise((resolve) => server.close(resolve)))

const at = (path: string) => `/slurm/v0.0.42${path}`
const error = (number: number, said: string, source = '') => ({
  errors: [{ description: 'It failed', error_number: number, error: said, source }],
})
const job = (changes: Record<string, unknown> = {}) => ({
  jobs: [{ job_id: 7, user_name: 'lab', job_state: ['RUNNING'], state_reason: 'None', ...changes }],
})
const SPEC: SlurmJobSpec = {
  ...{ script: '#!/bin/sh\n', name: 'lab', nodes: 1, tasksPerNode: 1, exclusive: false, workingDirectory: '/w' },
  ...{ output: '/w/job_%j.log', comment: 'mark', environment: {}, requeue: false, hold: true },
}
const times = (method: string) => asked.filter((each) => each.method === method).length

test('a ping is answered well though the token is bad: only a controller that responds is there', async () => {
  const ping = (responding: boolean) => ({
    pings: [{ hostname: 'head', pinged: responding ? 'UP' : 'DOWN', responding }],
  })
  answers[`GET ${at('/ping')} old`] = [200, ping(false)]
  answers[`GET ${at('/ping')} new`] = [200, ping(true)]
  await client.ping()
  answers[`GET ${at('/ping')} new`] = [200, ping(false)]
  await expect(client.ping()).rejects.toMatchObject({ kind: 'unreachable' })
})

test.each<[string, Answer]>([
  ['with a number', [511, error(1007, 'Protocol authentication error', 'slurm_load_jobs()')]],
  ['by its status alone', [511, { errors: [], partitions: [] }]],
])('a token that is too old is said %s, and a new one is tried', async (_, answer) => {
  answers[`GET ${at('/partitions')} old`] = answer
  answers[`GET ${at('/partitions')} new`] = [200, { errors: [], partitions: [{ name: 'gpu' }] }]
  expect(await client.partitions()).toMatchObject([{ name: 'gpu' }])
  expect(asked.slice(-2).map(({ token }) => token)).toEqual(['old', 'new'])
})

test.each<[string, Answer]>([
  ['that cannot be reached', [502, error(1800, 'Unable to contact slurm controller', 'slurm_submit_batch_job()')]],
  ['that does not answer', [504, error(5004, 'Socket timed out on send/recv operation', 'slurm_submit_batch_job()')]],
  ['that answers something else', [500, error(1000, 'Unexpected message received')]],
])('a controller %s: the job may have been made, and is not asked for twice', async (_, answer) => {
  answers[`POST ${at('/job/submit')}`] = answer
  await expect(client.submit(SPEC)).rejects.toMatchObject({ kind: 'unreachable' })
  expect(times('POST')).toBe(1)
})

test('ending a job: what has ended is no error, what is refused is one, what is not ours is not asked for', async () => {
  const status = (code: number) => ({ errors: [], status: [{ error: { code, message: 'so it was' }, step_id: '7' }] })
  answers[`GET ${at('/job/7')}`] = [200, job()]
  for (const code of [2017, 2021]) {
    answers[`DELETE ${at('/job/7')}`] = [200, status(code)]
    await client.cancel(7)
  }
  answers[`DELETE ${at('/job/7')}`] = [200, status(2002)]
  await expect(client.cancel(7)).rejects.toMatchObject({ kind: 'refused', number: 2002 })
  answers[`DELETE ${at('/job/7')}`] = [500, error(1, 'Operation not permitted', 'slurm_kill_jobs()')]
  await expect(client.cancel(7)).rejects.toMatchObject({ kind: 'unreachable' })
  const before = times('DELETE')
  answers[`GET ${at('/job/7')}`] = [200, job({ user_name: 'somebody' })]
  await expect(client.cancel(7)).rejects.toThrow('belongs to another user')
  answers[`GET ${at('/job/7')}`] = [404, error(2017, 'Invalid job id specified', '_handle_job_get')]
  await client.cancel(7)
  expect(times('DELETE')).toBe(before)
})

test('a job of another user is not released', async () => {
  answers[`POST ${at('/job/7')}`] = [500, error(2010, 'Invalid user id', 'slurm_update_job2()')]
  await expect(client.release(7)).rejects.toThrow('belongs to another user')
})
