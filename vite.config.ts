// One build, three uses of it:
//   vite build                 the page       → dist/web    a static folder, under any base path
//   vite build --mode node     cli and server → dist/node   with the workers that they start
//   vitest                     the tests      plain in Node; browser in Node, driving Chromium

import { join } from 'node:path'
import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig, type ViteUserConfig } from 'vitest/config'
import { nodeWorkers, workerEntries } from './build/nodeWorkers.ts'
import { NODE_DIST, PAGE_DIST, ROOT } from './build/paths.ts'
import { staticFiles } from './build/staticFiles.ts'
import { tfjsWasm } from './build/tfjsWasm.ts'
import { ISOLATION } from './server/access/isolation.ts'

/** tfjs's packages are ES modules that plain Node cannot load as such, so Node's bundles hold them too. */
const BUNDLED_IN_NODE = [/^@tensorflow\//]

/** Vite's root is web/, and the config of svelte-check and of this lies at the top. */
const SVELTE = { configFile: join(ROOT, 'svelte.config.js') }

export default defineConfig(({ mode }): ViteUserConfig => {
  if (mode === 'node') return node()
  if (process.env.VITEST && mode === 'test') return tests()
  return page()
})

function page(): ViteUserConfig {
  return {
    root: join(ROOT, 'web'),
    base: './',
    plugins: [svelte(SVELTE), staticFiles(ROOT), tfjsWasm],
    worker: { format: 'es', plugins: () => [tfjsWasm] },
    build: {
      outDir: PAGE_DIST,
      emptyOutDir: true,
      target: 'es2022',
      chunkSizeWarningLimit: 2000,
      rolldownOptions: { checks: { pluginTimings: false } },
    },
    server: {
      host: '127.0.0.1',
      headers: ISOLATION,
      fs: { allow: [ROOT] },
    },
    preview: { host: '127.0.0.1', headers: ISOLATION },
    cacheDir: join(ROOT, 'node_modules/.vite'),
    optimizeDeps: {
      // Scanned before the first request, so that no dependency is found late and reloads the page.
      entries: ['index.html', '../workers/**/*.ts', '!../workers/**/{*.,}node.ts', '../test/browser/**/*.page.ts'],
    },
  }
}

function node(): ViteUserConfig {
  const doors = ['cli/main', 'server/main'].map((door) => [door, join(ROOT, `${door}.ts`)])
  // The process of a run that the server computes itself; one folder deep, like every built file.
  doors.push(['server/attempt', join(ROOT, 'server/engines/local/attempt.process.ts')])
  return {
    root: ROOT,
    plugins: [nodeWorkers('build'), tfjsWasm],
    ssr: { noExternal: BUNDLED_IN_NODE },
    build: {
      ssr: true,
      outDir: NODE_DIST,
      emptyOutDir: true,
      target: 'node20',
      sourcemap: true,
      minify: false,
      copyPublicDir: false,
      rolldownOptions: {
        checks: { pluginTimings: false },
        input: { ...Object.fromEntries(doors), ...workerEntries(ROOT) },
        output: { entryFileNames: '[name].js', chunkFileNames: 'chunks/[name]-[hash].js' },
      },
    },
  }
}

function tests(): ViteUserConfig {
  const plugins = [svelte(SVELTE), nodeWorkers('test')]
  const server = { deps: { inline: BUNDLED_IN_NODE } }
  return {
    test: {
      projects: [
        {
          plugins,
          test: {
            name: 'plain',
            include: ['test/**/*.test.ts'],
            exclude: ['test/browser/**', 'test/cluster/live/**'],
            environment: 'node',
            testTimeout: 30_000,
            server,
          },
        },
        {
          plugins,
          test: {
            name: 'cluster',
            include: ['test/cluster/live/*.test.ts'],
            environment: 'node',
            globalSetup: ['test/cluster/support/probe.ts'],
            // One cluster at a time.
            fileParallelism: false,
            testTimeout: 120_000,
            hookTimeout: 120_000,
            server,
          },
        },
        {
          plugins,
          test: {
            name: 'browser',
            include: ['test/browser/*.test.ts'],
            environment: 'node',
            globalSetup: ['test/browser/devServer.ts'],
            // Two cores: one Chromium at a time.
            fileParallelism: false,
            testTimeout: 120_000,
            hookTimeout: 120_000,
            server,
          },
        },
      ],
    },
  }
}
