// Lets `new Worker(new URL('./trainer.worker.ts', import.meta.url))` mean the same in Node as in a page: the worker is
// built as a file of its own and the URL points to it. Under vitest the URL points to the last build, made fresh.

import { dirname, join, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Plugin } from 'vite'
import { build } from '../bin/prepare.mjs'
import { NODE_DIST } from './paths.ts'

const WORKER_URL = /new URL\(\s*(['"])([^'"]+\.worker\.ts)\1\s*,\s*import\.meta\.url,?\s*\)/g

export function nodeWorkers(root: string, mode: 'build' | 'test'): Plugin {
  return {
    name: 'rollout-lab:node-workers',
    applyToEnvironment: (environment) => environment.config.consumer === 'server',
    transform: {
      filter: { code: /\.worker\.ts/, id: { exclude: /node_modules/ } },
      async handler(code, id) {
        if (!code.match(WORKER_URL)) return null
        if (mode === 'test') await build(['node'])
        return code.replace(WORKER_URL, (_match, _quote, path: string) => {
          const worker = resolve(dirname(id.split('?')[0]), path)
          const name = relative(root, worker).replaceAll('\\', '/').replace(/\.ts$/, '')
          if (mode === 'test') return `new URL(${JSON.stringify(pathToFileURL(join(NODE_DIST, `${name}.js`)).href)})`
          return `new URL(import.meta.ROLLUP_FILE_URL_${this.emitFile({ type: 'chunk', id: worker, name })})`
        })
      },
    },
  }
}
