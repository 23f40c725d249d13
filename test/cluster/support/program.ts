// A program of the tests as plain Node runs it: one file, below the packages that it imports.

import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { build } from 'vite'
import { ROOT } from '../../../build/paths.ts'

export interface Program {
  file: string
  remove(): Promise<void>
}

/** `name` of a file of this folder, without `.ts`. */
export async function buildProgram(name: string): Promise<Program> {
  await mkdir(join(ROOT, 'dist'), { recursive: true })
  const folder = await mkdtemp(join(ROOT, 'dist/.test-'))
  await build({
    ...{ root: ROOT, configFile: false, logLevel: 'silent' },
    build: {
      ...{ ssr: join(import.meta.dirname, `${name}.ts`), outDir: folder, target: 'node20' },
      rolldownOptions: { checks: { pluginTimings: false }, output: { entryFileNames: `${name}.mjs` } },
    },
  })
  return { file: join(folder, `${name}.mjs`), remove: () => rm(folder, { recursive: true, force: true }) }
}
