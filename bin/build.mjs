// `npm run build`: leaves dist/web (a static folder that trains without a server) and dist/node as fresh as the sources.

import { build, checkNode, install, Refusal } from './prepare.mjs'

try {
  checkNode()
  await install()
  await build(['node', 'web'])
  process.stdout.write(
    'dist/web holds the page, for any file server and any path; dist/node the command line and the server.\n',
  )
} catch (error) {
  if (!(error instanceof Refusal)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
}
