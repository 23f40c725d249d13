// The door of the server in a real Chromium: the link that `npm start` prints, the cookie, and a page of another origin on
// the same machine, to which a browser gives the same cookies.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { browser, openPage } from './harness.ts'
import { npmStart, type Started } from './started.ts'

let server: Started
beforeAll(async () => {
  server = await npmStart()
}, 240_000)
afterAll(() => server.interrupt())

/** Runs in a page, as the page's own request. */
const ask = (path: string, init: RequestInit = {}) =>
  `fetch(${JSON.stringify(path)}, ${JSON.stringify(init)}).then(async (answer) => [answer.status, await answer.text()])`

const NEW_KEY = {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ name: 'made-by-a-page', scopes: ['operator'] }),
}

describe('the link', () => {
  it('signs its page in, keeps what follows #, and leaves no token where a script or the history can find it', async () => {
    const context = await (await browser()).newContext()
    const { page, errors } = await openPage(`${server.link}#recipe=rl/reverse-text`, context)
    expect(page.url()).not.toContain('token')
    expect(page.url()).toContain('#recipe=rl/reverse-text')
    expect(await page.evaluate('document.cookie')).toBe('')
    const [cookie] = await context.cookies()
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict', path: '/' })
    expect((await page.evaluate(ask('api/keys'))) as [number, string]).toEqual([200, expect.stringContaining('"keys"')])
    expect(((await page.evaluate(ask('api/keys', NEW_KEY))) as [number, string])[0]).toBe(201)
    expect(errors).toEqual([])

    // Another page of the same browser has the cookie; another browser with the same link has nothing.
    const second = await openPage(server.url, context)
    expect(((await second.page.evaluate(ask('api/runs'))) as [number, string])[0]).toBe(200)
    const stranger = await (await browser()).newContext()
    const other = await stranger.newPage()
    expect((await other.goto(server.link))?.status()).toBe(401)
    expect(await other.innerText('body')).toContain('opened before')
    await other.getByRole('link', { name: 'Open the page without signing in' }).click()
    await other.waitForURL(server.url)
    expect((await other.evaluate(ask('api/runs'))) as [number, string]).toEqual([401, expect.any(String)])

    // A page on another port of this machine is «same-site»: the browser sends it the cookie, SameSite=Strict or not.
    const elsewhere = createServer((_request, response) => {
      response.setHeader('content-type', 'text/html').end(`<title>Elsewhere</title>
        <form method="post" enctype="text/plain" action="${server.url}api/keys">
          <input name='{"name":"stolen","scopes":["operator"],"x":"' value='"}'><button>Go</button></form>`)
    })
    await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve))
    try {
      const evil = await context.newPage()
      const there = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/`
      await evil.goto(there)
      const sent = evil.waitForRequest(`${server.url}api/keys`)
      const answered = evil.waitForResponse(`${server.url}api/keys`)
      await evil.getByRole('button', { name: 'Go' }).click()
      expect((await (await sent).allHeaders()).cookie).toContain(cookie.name)
      expect((await answered).status()).toBe(403)
      await evil.waitForLoadState()
      await evil.goto(there)
      // Nor can it read.
      const read = `fetch('${server.url}api/keys', { credentials: 'include' }).then(() => 'read', () => 'kept')`
      expect(await evil.evaluate(read)).toBe('kept')
      const blind = `fetch('${server.url}api/session', { method: 'DELETE', mode: 'no-cors', credentials: 'include' }).then(() => 'sent', () => 'kept')`
      await evil.evaluate(blind)
      expect(((await page.evaluate(ask('api/keys'))) as [number, string])[1]).not.toContain('stolen')
    } finally {
      elsewhere.closeAllConnections()
      elsewhere.close()
    }

    expect(((await page.evaluate(ask('api/session', { method: 'DELETE' }))) as [number, string])[0]).toBe(204)
    expect(((await page.evaluate(ask('api/keys'))) as [number, string])[0]).toBe(401)
  })
})

describe('the page of the API', () => {
  it('can be read, without a script and without an error', async () => {
    const { page, errors } = await openPage(new URL('api/docs', server.url).href)
    await page.getByText('Submit a run', { exact: true }).click()
    expect(await page.getByText('Idempotency-Key').first().isVisible()).toBe(true)
    expect(errors).toEqual([])
  })
})
