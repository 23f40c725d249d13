// The command line's door, as a process.

import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { build } from '../../bin/prepare.mjs'
import { ROOT } from '../../build/paths.ts'

function rolloutLab(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, 'bin/rollout-lab.mjs'), ...args], {
    encoding: 'utf8',
  })
  return { status, stdout, stderr }
}

describe('rollout-lab', () => {
  beforeAll(() => build(['node']), 120_000)

  it('lists its verbs with --help', () => {
    const { status, stdout } = rolloutLab('--help')
    expect(status).toBe(0)
    expect(stdout).toMatch(/^ {2}serve .*serve the page/m)
  })

  it('lists the options of one verb', () => {
    const { status, stdout } = rolloutLab('serve', '--help')
    expect(status).toBe(0)
    expect(stdout).toContain('--port <number>')
  })

  it('refuses an unknown verb and says where the known ones are listed', () => {
    const { status, stderr } = rolloutLab('trian')
    expect(status).toBe(1)
    expect(stderr).toContain("unknown command 'trian'")
    expect(stderr).toContain('--help lists the verbs')
  })

  it('refuses a port that is none', () => {
    const { status, stderr } = rolloutLab('serve', '--port', '70000')
    expect(status).toBe(1)
    expect(stderr).toContain('A port is a whole number from 0 (any free one) to 65535.')
  })
})
