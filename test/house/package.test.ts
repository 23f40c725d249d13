// What the package promises before any code runs.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
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
    const addresses = [...lock.matchAll(/"(\w+)": "[a-z+]+:\/\//g)].map(([, key]) => key)
    expect(new Set(addresses)).toEqual(new Set(['url', 'funding'].filter((key) => addresses.includes(key))))
  })

  it('are locked for every platform, as npm ci asks', () => {
    const { packages } = JSON.parse(lock) as { packages: Record<string, { optionalDependencies?: object }> }
    const names = new Set(Object.keys(packages).map((path) => path.slice(path.lastIndexOf('node_modules/') + 13)))
    const wanted = Object.values(packages).flatMap(({ optionalDependencies }) =>
      Object.keys(optionalDependencies ?? {}),
    )
    expect(wanted.filter((name) => !names.has(name))).toEqual([])
  })

  it('are found missing when the lock file and what is installed differ', () => {
    expect(missingPackages(ROOT, true)).toEqual([])
  })
})

describe('the Node version', () => {
  it('is refused below 20.19 with a sentence, and taken from there on', () => {
    expect(() => checkNode('18.20.4')).toThrow('needs Node 20.19 or newer, and this is Node 18.20.4')
    expect(() => checkNode('20.18.3')).toThrow('Node 20.18.3')
    for (const version of ['20.19.0', '22.0.0', '24.1.0']) expect(() => checkNode(version)).not.toThrow()
  })
})

describe('the stamp of a build', () => {
  it('stays while nothing changes', () => {
    expect(stampOf(ROOT, ['bin'])).toBe(stampOf(ROOT, ['bin']))
    expect(stampOf(ROOT, ['bin'])).not.toBe(stampOf(ROOT, ['build']))
  })
})
