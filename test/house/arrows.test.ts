// Invariant 11: imports point one way.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT } from '../../build/paths.ts'
import { complaint, ROOMS } from './arrows.ts'
import { importsOf, sourceFiles, specifiers } from './imports.ts'

const HOUSE = ['configs', 'environments', 'models', 'workers', 'server', 'cli', 'web']
const files = sourceFiles(ROOT, HOUSE)
const imports = files.flatMap((file) => importsOf(ROOT, file).map((imported) => ({ file, imported })))

describe('the arrows', () => {
  it('are followed by every import', () => {
    expect(imports.length).toBeGreaterThan(50)
    expect(imports.map(({ file, imported }) => complaint(file, imported)).filter(Boolean)).toEqual([])
  })

  it('lead to files that exist, with their extension written', () => {
    const lost = imports.filter(({ imported }) => imported.file && !imported.file.includes('*'))
    expect(lost.filter(({ imported }) => !existsSync(join(ROOT, imported.file!)))).toEqual([])
  })

  it('name each room once', () => {
    for (const file of files) {
      expect(
        ROOMS.filter((room) => room.files.test(file)).map((room) => room.name),
        file,
      ).toHaveLength(1)
    }
  })

  it('keep an environment within its folder and the core above it', () => {
    const beyond = imports.filter(({ file, imported }) => {
      const [top, folder, ...rest] = file.split('/')
      const [otherTop, otherFolder, ...otherRest] = (imported.file ?? '').split('/')
      if (top !== 'environments' || otherTop !== 'environments' || !otherRest.length) return false
      return rest.length ? folder !== otherFolder : file !== 'environments/index.ts'
    })
    expect(beyond).toEqual([])
  })

  it('keep threads, files and networks out of the core', () => {
    const core = /^workers\/(rl\/|policy\/|gpu\/|random|step|sft|evaluate|gepa|trainer)/
    const reach = /\b(fetch|importScripts|WebSocket|XMLHttpRequest|indexedDB)\s*\(|navigator\.storage|\bnew Worker\b/
    const offenders = files.filter((file) => core.test(file) && reach.test(code(file)))
    expect(offenders).toEqual([])
  })

  it('leave no room for a file whose name says nothing', () => {
    const everything = sourceFiles(ROOT, [...HOUSE, 'bin', 'build', 'test', 'bench'])
    expect(everything.filter((file) => /(^|\/)(utils?|common|shared|helpers?)(\/|\.)/i.test(file))).toEqual([])
  })
})

describe('the reading of imports', () => {
  it('finds each way in which a module can name another', () => {
    const text = `
      import a from './a.ts'
      import { b, type B } from './b.ts'
      import type { C } from './c.ts'
      import { type D } from './d.ts'
      import './e.css'
      export * from './f.ts'
      export type { G } from './g.ts'
      const h = await import('./h.ts')
      let i: import('./i.ts').I
      new Worker(new URL('./j.worker.ts', import.meta.url), { type: 'module' })
      import.meta.glob<string>(['./k/*.toml', './l/*.toml'])
      import m from './m.wgsl?raw'
      const notAnImport = "import n from './n.ts'"
    `
    expect(specifiers(text).map(({ specifier, typeOnly }) => (typeOnly ? `type ${specifier}` : specifier))).toEqual([
      './a.ts',
      './b.ts',
      'type ./c.ts',
      'type ./d.ts',
      './e.css',
      './f.ts',
      'type ./g.ts',
      './h.ts',
      'type ./i.ts',
      './j.worker.ts',
      './k/*.toml',
      './l/*.toml',
      './m.wgsl?raw',
    ])
  })

  it.each([
    ['workers/rl/loss.ts', '../policy/policy.ts'],
    ['workers/rl/loss.ts', '@tensorflow/tfjs-core'],
    ['workers/gpu/plan.ts', '../policy/policy.ts'],
    ['workers/policy/card.ts', 'node:fs'],
    ['workers/storage/node.ts', '../trainer.ts'],
    ['workers/step.ts', './trainer.ts'],
    ['workers/trainer.ts', 'comlink'],
    ['environments/rubric.ts', '../workers/random.ts'],
    ['configs/schema.ts', '../workers/random.ts'],
    ['server/app.ts', '../workers/trainer.ts'],
    ['cli/train.ts', '../server/main.ts'],
    ['web/panels/Run.ts', '../../workers/host.browser.ts'],
    ['web/main.ts', '@tensorflow/tfjs-core'],
  ])('would catch %s importing %s', (file, specifier) => {
    const relative = specifier.startsWith('.') ? join(file, '..', specifier) : null
    expect(complaint(file, { specifier, file: relative, typeOnly: false })).toContain(specifier)
  })
})

/** A file's text without its comments and strings. */
function code(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8')
    .replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
    .replace(/'[^'\n]*'/g, "''")
}
