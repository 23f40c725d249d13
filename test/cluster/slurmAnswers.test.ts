// Both versions of slurmrestd's API, by answers of their shapes; the older one also runs for real in test/cluster/live.

import { describe, expect, test } from 'vitest'
import { complaintsOf, numberOf, timeOf } from '../../server/engines/slurm/answer.ts'
import { jobOf, partitionOf } from '../../server/engines/slurm/decode.ts'
import { DIALECTS, dialectOf } from '../../server/engines/slurm/dialect.ts'
import type { SlurmJobSpec } from '../../server/engines/slurm/job.ts'
import { gpusIn, hostsOf, minutesOf } from '../../server/engines/slurm/scheduler.ts'
import { reasonText, stateOf } from '../../server/engines/slurm/states.ts'
import { V0038 } from '../../server/engines/slurm/v0038.ts'
import { V0040 } from '../../server/engines/slurm/v0040.ts'

const SPEC: SlurmJobSpec = {
  ...{ script: '#!/bin/bash\n', name: 'lab', partition: 'gpu', account: 'team', nodes: 2, tasksPerNode: 1 },
  ...{ gres: 'gpu:8', exclusive: true, timeLimit: 90, nodelist: 'a,b', exclude: 'c', workingDirectory: '/w' },
  ...{ output: '/w/job_%j.log', comment: 'mark', environment: { A: '1', B: 'x=y' }, requeue: false, hold: true },
  signal: 'B:TERM@30',
}

const set = (number: number) => ({ set: true, infinite: false, number })

describe('what is asked for', () => {
  test('v0.0.38', () => {
    expect(V0038.encode(SPEC).job).toMatchObject({
      ...{ environment: { A: '1', B: 'x=y' }, exclusive: 'exclusive', gres: 'gpu:8', nodes: [2, 2], time_limit: 90 },
      ...{ hold: true, requeue: false, open_mode: 'append', comment: 'mark', required_nodes: ['a', 'b'] },
    })
  })

  test('v0.0.40', () => {
    expect(V0040.encode(SPEC).job).toMatchObject({
      ...{ environment: ['A=1', 'B=x=y'], shared: ['none'], tres_per_node: 'gres/gpu:8', nodes: '2' },
      ...{ time_limit: set(90), open_mode: ['APPEND'], hold: true, kill_warning_signal: 'TERM' },
      kill_warning_delay: set(30),
    })
  })

  test('the newest version that both know is spoken', () => {
    const paths = (...versions: string[]) => versions.map((version) => `/slurm/${version}/job/submit`)
    expect(dialectOf(paths('v0.0.36', 'v0.0.37', 'v0.0.38'))?.version).toBe('v0.0.38')
    expect(dialectOf(paths('v0.0.39', 'v0.0.41', 'v0.0.40'))?.version).toBe('v0.0.41')
    expect(dialectOf(paths('v0.0.36', 'v0.0.99'))).toBeNull()
    expect(DIALECTS.map(({ version }) => version)).toEqual([...DIALECTS.map(({ version }) => version)].sort().reverse())
  })
})

describe('what is told', () => {
  test('v0.0.38: words, plain numbers, a wait status', () => {
    const job = jobOf(
      {
        ...{
          job_id: 7,
          name: 'lab',
          job_state: 'FAILED',
          state_reason: 'NonZeroExitCode',
          comment: 'mark',
          exit_code: 768,
        },
        ...{ submit_time: 10, start_time: 11, end_time: 12, restart_cnt: 1, nodes: 'n0', partition: 'cluster' },
        standard_output: '/w/job_%j.log',
      },
      V0038,
    )
    expect(job).toMatchObject({
      ...{ id: 7, state: 'FAILED', exitCode: 3, signal: null, restarts: 1, startedAt: 11_000, endedAt: 12_000 },
      output: '/w/job_7.log',
    })
    const killed = jobOf({ job_id: 8, job_state: 'CANCELLED', exit_code: 15, end_time: 5 }, V0038)
    expect([killed.exitCode, killed.signal]).toEqual([0, 15])
  })

  test('v0.0.40: lists with flags, wrapped numbers, an object for the exit', () => {
    const job = jobOf(
      {
        ...{ job_id: 7, name: 'lab', job_state: ['COMPLETED', 'COMPLETING'], state_reason: 'None', comment: 'mark' },
        exit_code: {
          status: ['SUCCESS'],
          return_code: set(0),
          signal: { id: { set: false, infinite: false, number: 0 } },
        },
        ...{ submit_time: set(10), start_time: set(11), end_time: set(12), restart_cnt: 0, nodes: 'n0', hold: false },
        ...{ standard_output: '/w/job_%j.log', stdout_expanded: '/w/job_7.log' },
      },
      V0040,
    )
    expect(job).toMatchObject({
      state: 'COMPLETED',
      reason: '',
      exitCode: 0,
      signal: null,
      endedAt: 12_000,
      output: '/w/job_7.log',
    })
  })

  test('a time limit without end, and one', () => {
    expect(partitionOf({ name: 'a', max_time_limit: -1, flags: ['default'] })).toMatchObject({
      maxTime: null,
      isDefault: true,
    })
    const newer = {
      name: 'b',
      maximums: { time: set(60) },
      nodes: { configured: 'n[0-3]', total: 4 },
      partition: { state: ['UP'] },
    }
    expect(partitionOf(newer)).toMatchObject({ maxTime: 60, nodes: 'n[0-3]', totalNodes: 4, state: 'UP' })
  })

  test('numbers and errors in both shapes', () => {
    expect([numberOf(5), numberOf(set(5)), numberOf({ set: false, number: 5 }), numberOf({ infinite: true })]).toEqual([
      5,
      5,
      null,
      null,
    ])
    expect([timeOf(0), timeOf(set(2))]).toEqual([null, 2000])
    expect(
      complaintsOf({
        errors: [
          { error: 'x', error_code: 2014 },
          { description: 'y', error_number: 2017 },
        ],
      }),
    ).toMatchObject([
      { number: 2014, sentence: 'x' },
      { number: 2017, sentence: 'y' },
    ])
  })
})

test.each([
  ['PENDING', false, 'queued'],
  ['CONFIGURING', false, 'starting'],
  ['RUNNING', false, 'starting'],
  ['RUNNING', true, 'running'],
  ['COMPLETING', true, 'running'],
  ['COMPLETED', true, 'succeeded'],
  ['OUT_OF_MEMORY', true, 'failed'],
  ['NODE_FAIL', true, 'node_lost'],
  ['PREEMPTED', true, 'node_lost'],
  ['DEADLINE', true, 'timed_out'],
  ['REVOKED', false, 'cancelled'],
  ['SOMETHING_NEW', true, 'unknown'],
] as const)('%s (begun: %s) is %s', (state, begun, ours) => {
  expect(stateOf(jobOf({ job_id: 1, job_state: state }, V0038), begun)).toBe(ours)
})

test('reasons are sentences, or Slurm’s own word', () => {
  expect(reasonText({ reason: 'Priority' })).toBe('Jobs before it in the queue go first.')
  expect(reasonText({ reason: 'AssocMaxJobsLimit' })).toBe('AssocMaxJobsLimit')
})

test('times and node lists as Slurm writes them', () => {
  expect(['90', '24:00:00', '7-00:00:00', '1-12', '10:30', undefined].map(minutesOf)).toEqual([
    90,
    1440,
    10_080,
    2160,
    11,
    undefined,
  ])
  expect(() => minutesOf('soon')).toThrow('is no time')
  expect([hostsOf('n[0-2],m07'), hostsOf('g[08-10]'), hostsOf('')]).toEqual([
    ['n0', 'n1', 'n2', 'm07'],
    ['g08', 'g09', 'g10'],
    [],
  ])
})

test('GPUs as Slurm counts them', () => {
  expect(
    ['gpu:fake:2', 'gpu:4', 'gpu:a100:4(S:0-1),gpu:h100:2(IDX:0)', 'gpu:fake:0(IDX:N/A)', 'nic:3', ''].map(gpusIn),
  ).toEqual([2, 4, 6, 0, 0, 0])
})
