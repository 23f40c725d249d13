// What the package promises before any code runs.

import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { checkNode, missingPackages, stampOf } from '../../bin/prepare.mjs'
import { ROOT } from '../../build/paths.ts'

const lock = readFileSync(join(ROOT, 'package-lock.json'), 'utf8')
const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))

describe('the packages', () => {
  it('are pinned to one version each', () => {
    const { dependencies, devDependencies, optionalDependencies } = manifest
    for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies })) {
      expect(version, name).toMatch(/^\d+\.\d+\.\d+$/)
    }
  })

  it('are locked by digest, with no address to download from', () => {
    const { packages } = JSON.parse(lock) as { packages: Record<string, { integrity?: string; link?: boolean }> }
    for (const [path, entry] of Object.entries(packages)) if (path) expect(entry.integrity, path).toMatch(/^sha512-/)
    expect(lock).not.toMatch(/"resolved"/)
    // Funding pages are the only addresses left.
    const addressed = [...lock.matchAll(/"(\w+)": "[a-z+]+:\/\//g)].map(([, key]) => key)
    expect(addressed.filter((key) => key !== 'url' && key !== 'funding')).toEqual([])
  })

  it('are locked for every platform, as npm ci asks', () => {
    const { packages } = JSON.parse(lock) as { packages: Record<string, { optionalDependencies?: object }> }
    const names = new Set(Object.keys(packages).map((path) => path.slice(path.lastIndexOf('node_modules/') + 13)))
    const wanted = Object.values(packages).flatMap(({ optionalDependencies }) =>
      Object.keys(optionalDependencies ?? {}),
    )
    expect(wanted.filter((name) => !names.has(name))).toEqual([])
  })

  it('are all here, and so nothing would be installed', () => {
    expect(missingPackages(ROOT, true)).toEqual([])
  })

  it('are found missing when they are absent or of another version than the lock file says', () => {
    const root = checkout({
      wanted: {
        '': {},
        'node_modules/same': { version: '1.0.0' },
        'node_modules/older': { version: '2.0.0' },
        'node_modules/absent': { version: '1.0.0' },
        'node_modules/test-only': { version: '1.0.0', dev: true },
        'node_modules/other-platform': { version: '1.0.0', optional: true },
      },
      present: { 'node_modules/same': { version: '1.0.0' }, 'node_modules/older': { version: '1.9.0' } },
    })
    expect(missingPackages(root, false)).toEqual(['node_modules/older', 'node_modules/absent'])
    expect(missingPackages(root, true)).toEqual(['node_modules/older', 'node_modules/absent', 'node_modules/test-only'])
  })

  it('are all missing on a fresh clone', () => {
    expect(missingPackages(checkout({ wanted: { 'node_modules/a': { version: '1.0.0' } } }), false)).toHaveLength(1)
  })
})

/** A folder with a lock file, and with the record that npm keeps of what it installed. */
function checkout({ wanted, present }: { wanted: object; present?: object }): string {
  const root = mkdtempSync(join(tmpdir(), 'rollout-lab-checkout-'))
  onTestFinished(() => rmSync(root, { recursive: true }))
  writeFileSync(join(root, 'package-lock.json'), JSON.stringify({ packages: wanted }))
  if (present) {
    mkdirSync(join(root, 'node_modules'))
    writeFileSync(join(root, 'node_modules/.package-lock.json'), JSON.stringify({ packages: present }))
  }
  return root
}

describe('the Node version', () => {
  it('is refused below 20.19 with a sentence, and taken from there on', () => {
    expect(() => checkNode('18.20.4')).toThrow('needs Node 20.19 or newer, and this is Node 18.20.4')
    expect(() => checkNode('20.18.3')).toThrow('Node 20.18.3')
    for (const version of ['20.19.0', '22.0.0', '24.1.0']) expect(() => checkNode(version)).not.toThrow()
  })
})

describe('the stamp of a build', () => {
  it('changes when a file below its paths does, and only then', () => {
    const root = checkout({ wanted: {} })
    mkdirSync(join(root, 'sources/deep'), { recursive: true })
    writeFileSync(join(root, 'sources/deep/a.ts'), 'one')
    writeFileSync(join(root, 'elsewhere.ts'), 'one')
    const before = stampOf(root, ['sources'])
    writeFileSync(join(root, 'elsewhere.ts'), 'two, and longer')
    expect(stampOf(root, ['sources'])).toBe(before)
    writeFileSync(join(root, 'sources/deep/a.ts'), 'two, and longer')
    expect(stampOf(root, ['sources'])).not.toBe(before)
  })
})

describe('npm test', () => {
  it('ends with the count, and with a code other than 0 when it could not run', () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, 'bin/test.mjs'), 'no-such-stage'], {
      encoding: 'utf8',
    })
    expect(status).toBe(1)
    expect(stderr).toContain('No stage is called no-such-stage')
    expect(stdout.trimEnd().split('\n').at(-1)).toBe('0 passed, 1 failed')
  })
})
