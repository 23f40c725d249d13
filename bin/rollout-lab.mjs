#!/usr/bin/env node
// The command line's door: installs and builds what is missing or out of date, then hands over to cli/main.ts as built.

import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build, checkNode, install, Refusal, ROOT } from './prepare.mjs'

try {
  checkNode()
  process.setSourceMapsEnabled(true)
  await install()
  await build(['node'])
  const { main } = await import(pathToFileURL(join(ROOT, 'dist/node/cli/main.js')).href)
  process.exitCode = await main(process.argv.slice(2), { root: ROOT, buildPage: () => build(['web']) })
} catch (error) {
  if (!(error instanceof Refusal)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
}
