// Where the build finds things and where it leaves them.

import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
export const PAGE_DIST = join(ROOT, 'dist/web')
export const NODE_DIST = join(ROOT, 'dist/node')
