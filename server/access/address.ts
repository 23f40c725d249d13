// Where a request came from, as its socket says it; '' where there is none.

import { getConnInfo } from '@hono/node-server/conninfo'
import type { Context } from 'hono'

export function addressOf(c: Context): string {
  return c.env?.incoming ? (getConnInfo(c).remote.address ?? '') : ''
}
