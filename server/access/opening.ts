// GET /?token=…: the link that the server prints. Signs the page in, and sends it on without the token, which is then
// neither in its history nor worth anything. What follows # in the link stays, so that a link may hold a config.

import type { MiddlewareHandler } from 'hono'
import { html } from 'hono/html'
import type { Access } from './access.ts'
import { Denied } from './principal.ts'

export function opening(access: Access): MiddlewareHandler {
  return async (c, next) => {
    const token = c.req.query('token')
    if (token === undefined) return next()
    c.header('Cache-Control', 'no-store')
    try {
      await access.signIn(c, { token })
    } catch (error) {
      if (!(error instanceof Denied)) throw error
      // Opened a second time by the page that is signed in already.
      const signedIn = await access.identify(c).catch(() => null)
      if (!signedIn) return c.html(refusal(error.message), 401)
    }
    return c.redirect('./', 303)
  }
}

const refusal = (sentence: string) => html`<!doctype html>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Rollout Lab</title>
<style>body { font: 16px/1.5 system-ui; max-width: 36em; margin: 15vh auto; padding: 0 1em } :root { color-scheme: light dark }</style>
<p>${sentence}</p>
<p><a href="./">Open the page without signing in</a>: it trains in this tab.</p>
`
