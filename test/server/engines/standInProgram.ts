// Builds what the process of a run needs in tests: the program itself, as for everybody, and the stand-in for its trainer.

import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { build as bundle } from 'vite'
import { build } from '../../../bin/prepare.mjs'
import { ROOT } from '../../../build/paths.ts'
import { load } from '../../../configs/load.ts'
import type { RunConfig } from '../../../configs/schema.ts'
import { LETTERS_RUN } from '../../trainer/lettersRun.ts'

export interface Programs {
  /** A module that exports the stand-in's `openTrainer`. */
  trainer: string
  /** A whole server: test/server/runs/crashServer.ts. */
  server: string
  remove(): Promise<void>
}

export async function buildPrograms(): Promise<Programs> {
  await build(['node'])
  // Below the packages that the programs import.
  await mkdir(join(ROOT, 'dist'), { recursive: true })
  const folder = await mkdtemp(join(ROOT, 'dist/.test-'))
  await bundle({
    configFile: false,
    logLevel: 'error',
    root: ROOT,
    build: {
      ssr: true,
      outDir: folder,
      target: 'node20',
      minify: false,
      rolldownOptions: {
        checks: { pluginTimings: false },
        input: {
          trainer: join(import.meta.dirname, 'standIn.ts'),
          server: join(import.meta.dirname, '../runs/crashServer.ts'),
        },
        output: { entryFileNames: '[name].mjs', chunkFileNames: '[name]-[hash].mjs' },
      },
    },
  })
  return {
    trainer: join(folder, 'trainer.mjs'),
    server: join(folder, 'server.mjs'),
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}

/** A config that the server takes and the stand-in runs: the letters of test/trainer, whatever environment it names. */
export const STAND_IN = { ...LETTERS_RUN, env: [{ id: 'reverse-text' }] }

export function standInConfig(more: Record<string, unknown> = {}): RunConfig {
  const loaded = load({ ...STAND_IN, ...more })
  if (loaded.problems) throw new Error(loaded.problems[0].sentence)
  return loaded.config
}
