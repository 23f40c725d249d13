// What is wrong with a request, by the first complaint of its schema. Values are in no sentence.

import type { Context, Env } from 'hono'

interface Checked {
  success: boolean
  error?: readonly { path?: readonly (PropertyKey | { key: PropertyKey })[]; message: string }[]
}

/** For hono-openapi's validator: answers 400 with `what` a request is, and where this one is not that. */
export const wrong =
  (what: string) =>
  <E extends Env, P extends string>(result: Checked, c: Context<E, P>) => {
    if (result.success || !result.error) return
    const [{ path = [], message }] = result.error
    const at = path.map((part) => String(typeof part === 'object' ? part.key : part))
    return c.json({ error: `${what}${at.length ? ` At ${at.join('.')}:` : ''} ${message}.` }, 400)
  }
