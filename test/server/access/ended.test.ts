// Answers that are still open when the right to them ends.

import { Hono } from 'hono'
import { streamSSE } from 'hono/streaming'
import { describe, expect, it } from 'vitest'
import { bearer, cookieOf, json, openDoor, type TestDoor } from './door.ts'

/** A route that streams for ever behind the door of a test, and the reader of one answer of it. */
async function follow(door: TestDoor, headers: Record<string, string>) {
  let left = false
  const app = new Hono().get('/follow', door.access.require('runs:read'), (c) =>
    streamSSE(c, async (stream) => {
      stream.onAbort(() => {
        left = true
      })
      for (let i = 0; !stream.aborted; i++) {
        await stream.writeSSE({ id: String(i), data: 'x' })
        await stream.sleep(5)
      }
    }),
  )
  const answer = await app.request('http://127.0.0.1:5173/follow', { headers: { host: '127.0.0.1:5173', ...headers } })
  expect(answer.status).toBe(200)
  const reader = answer.body!.getReader()
  await reader.read()
  return {
    async ended() {
      try {
        while (!(await reader.read()).done);
        return 'done'
      } catch (error) {
        return (error as Error).message
      }
    },
    left: () => left,
  }
}

describe('an answer that streams ends', () => {
  it('when its key is revoked here, for it alone', async () => {
    const door = await openDoor()
    const [a, b] = [await door.key({ name: 'a' }), await door.key({ name: 'b' })]
    const [ofA, ofB] = [await follow(door, bearer(a)), await follow(door, bearer(b))]
    await door.access.keys.revoke('a')
    expect(await ofA.ended()).toContain('revoked')
    expect([ofA.left(), ofB.left()]).toEqual([true, false])
    await door.access.keys.revoke('b')
    await ofB.ended()
  })

  it('when its key is revoked in the database by another process, and when it expires', async () => {
    const door = await openDoor()
    const other = await follow(door, bearer(await door.key({ name: 'other' })))
    const expiring = await follow(door, bearer(await door.key({ expiresAt: door.clock.now + 1000 })))
    await door.store.db.updateTable('access_key').set({ revoked_at: 1 }).where('name', '=', 'other').execute()
    door.clock.now += 1000
    expect(await Promise.all([other.ended(), expiring.ended()])).toEqual([
      expect.stringContaining('revoked'),
      expect.stringContaining('expired'),
    ])
  })

  it('when its page signs out, or the key does with which the page signed in', async () => {
    const door = await openDoor()
    const cookie = await door.signIn()
    const page = await follow(door, { cookie })
    await door.page('/api/session', { method: 'DELETE', cookie })
    expect(await page.ended()).toContain('signed out')
    const key = await door.key({ name: 'laptop' })
    const second = await follow(door, { cookie: cookieOf(await door.page('/api/session', json({ key })))! })
    await door.access.keys.revoke('laptop')
    expect(await second.ended()).toContain('revoked')
  })

  it('when the server does', async () => {
    const door = await openDoor()
    const page = await follow(door, { cookie: await door.signIn() })
    door.access.close()
    expect(await page.ended()).toContain('the server is ending')
  })
})
