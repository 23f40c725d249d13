// Files that the page fetches while it runs, and that no bundle should hold: model checkpoints, recipes, the wasm
// backend's binaries. The dev server answers for them; a build copies them beside the page.
//
//   models/<name>/<file>       models/files.json     what there is, with sizes
//   configs/<kind>/<recipe>    configs/files.json
//   wasm/<binary>
//   _headers                   for hosts of static files that read it: cross-origin isolation

import { createHash } from 'node:crypto'
import { copyFile, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import type { Connect, Plugin } from 'vite'
import { ISOLATION } from '../server/access/isolation.ts'
import { sendFile } from './sendFile.ts'

/** Of one folder under `models/` or `configs/`: file name → what a reader needs to fetch parts of it. */
export type Listing = Record<string, Record<string, { bytes: number; sha256: string }>>

interface Served {
  /** Path below the page, with forward slashes. */
  url: string
  file: string
}

const CHECKPOINT_FILE = /\.(json|safetensors|jinja|txt)$/
const RECIPE_FILE = /\.toml$/

export function staticFiles(root: string): Plugin {
  let outDir = ''
  return {
    name: 'rollout-lab:static-files',
    applyToEnvironment: (environment) => environment.config.consumer === 'client',
    configResolved({ root: base, build }) {
      outDir = resolve(base, build.outDir)
    },
    configureServer(server) {
      server.middlewares.use(answer(root))
    },
    async writeBundle() {
      for (const { url, file } of await everyFile(root)) {
        const target = join(outDir, url)
        await mkdir(dirname(target), { recursive: true })
        await copyFile(file, target)
      }
      const headers = Object.entries(ISOLATION).map(([name, value]) => `  ${name}: ${value}\n`)
      await writeFile(join(outDir, '_headers'), `/*\n${headers.join('')}`)
      for (const kind of ['models', 'configs'] as const) {
        await mkdir(join(outDir, kind), { recursive: true })
        await writeFile(join(outDir, kind, 'files.json'), JSON.stringify(await listing(root, kind), null, 2))
      }
    },
  }
}

function answer(root: string): Connect.NextHandleFunction {
  return async (request, response, next) => {
    const path = decodeURIComponent((request.url ?? '').split('?')[0]).slice(1)
    if (!/^(models|configs|wasm)\//.test(path)) return next()
    try {
      const [kind, rest] = [path.split('/')[0], path.slice(path.indexOf('/') + 1)]
      if (rest === 'files.json' && (kind === 'models' || kind === 'configs')) {
        response.setHeader('Content-Type', 'application/json')
        response.end(JSON.stringify(await listing(root, kind)))
        return
      }
      const found = (await everyFile(root)).find(({ url }) => url === path)
      if (!found) return next()
      await sendFile(request, response, found.file)
    } catch (error) {
      next(error)
    }
  }
}

async function everyFile(root: string): Promise<Served[]> {
  const served: Served[] = []
  for (const kind of ['models', 'configs'] as const) {
    for (const { folder, name, file } of await filesOf(root, kind)) {
      served.push({ url: `${kind}/${folder}/${name}`, file })
    }
  }
  const wasm = join(root, 'node_modules/@tensorflow/tfjs-backend-wasm/wasm-out')
  for (const name of await readdir(wasm)) {
    if (name.endsWith('.wasm')) served.push({ url: `wasm/${name}`, file: join(wasm, name) })
  }
  return served
}

async function listing(root: string, kind: 'models' | 'configs'): Promise<Listing> {
  const list: Listing = {}
  for (const { folder, name, file } of await filesOf(root, kind)) {
    list[folder] ??= {}
    list[folder][name] = { bytes: (await stat(file)).size, sha256: await sha256(file) }
  }
  return list
}

async function filesOf(root: string, kind: 'models' | 'configs') {
  const wanted = kind === 'models' ? CHECKPOINT_FILE : RECIPE_FILE
  const entries = await readdir(join(root, kind), { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile() && wanted.test(entry.name) && dirname(entry.parentPath) === join(root, kind))
    .map((entry) => ({
      folder: basename(entry.parentPath),
      name: entry.name,
      file: join(entry.parentPath, entry.name),
    }))
    .sort((a, b) => (a.file < b.file ? -1 : 1))
}

async function sha256(file: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(file))
    .digest('hex')
}
