// The proxy's door, as access keeps it: its denials in the shape that OpenAI's clients read.

import type { Context, MiddlewareHandler } from 'hono'
import type { Access } from '../access/access.ts'
import type { Denied } from '../access/principal.ts'
import type { Guard, ProxyEnv } from './http.ts'
import { Refusal } from './refusal.ts'

export const guardOf =
  (access: Access): Guard =>
  (scope) =>
    access.require(scope, { answer: denial }) as unknown as MiddlewareHandler<ProxyEnv>

function denial(c: Context, { status, message }: Denied): Response {
  const code = status === 401 ? 'invalid_api_key' : 'not_allowed'
  return c.json(new Refusal(status, code, message).view, status)
}
