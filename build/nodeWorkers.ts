// Lets `new Worker(new URL('./trainer.worker.ts', import.meta.url))` mean the same in Node as in a page: each
// `workers/*.worker.ts` is built as a file of its own, and the URL points to it. Under vitest it points to the last
// build, made fresh.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Plugin } from 'vite'
import { build } from '../bin/prepare.mjs'
import { NODE_DIST } from './paths.ts'

const WORKER_URL = /new URL\(\s*['"]\.\/(\w+\.worker)\.ts['"]\s*,\s*import\.meta\.url,?\s*\)/g

/** The worker doors as entries of a build: name in `dist/node` → source file. */
export function workerEntries(root: string): Record<string, string> {
  const doors = readdirSync(join(root, 'workers')).filter((name) => name.endsWith('.worker.ts'))
  return Object.fromEntries(doors.map((name) => [`workers/${name.replace(/\.ts$/, '')}`, join(root, 'workers', name)]))
}

export function nodeWorkers(mode: 'build' | 'test'): Plugin {
  return {
    name: 'rollout-lab:node-workers',
    applyToEnvironment: (environment) => environment.config.consumer === 'server',
    transform: {
      filter: { code: /\.worker\.ts/, id: /\/workers\/[^/?]*\.ts$/ },
      async handler(code) {
        if (!code.match(WORKER_URL)) return null
        if (mode === 'test') await build(['node'])
        return {
          code: code.replace(WORKER_URL, (_match, worker: string) =>
            mode === 'test'
              ? `new URL(${JSON.stringify(pathToFileURL(join(NODE_DIST, 'workers', `${worker}.js`)).href)})`
              : // Every built file lies one folder deep: cli/, server/, workers/ or chunks/.
                `new URL('../workers/${worker}.js', import.meta.url)`,
          ),
          map: null,
        }
      },
    },
  }
}
