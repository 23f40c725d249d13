// The server's API as its own types tell it: a route that is not there, or answers with another shape, is an error of the
// types. Every answer is a value or the server's refusal as a sentence.

import { type ClientResponse, hc } from 'hono/client'
import type { AppType } from '../../server/app.ts'
import { onServer } from '../served.ts'
import { reach } from './ask.ts'

export const api = hc<AppType>(onServer('.').href, {
  fetch: (input: RequestInfo | URL, init?: RequestInit) => reach(String(input), init),
}).api

/** @throws ServerRefusal */
export async function answer<T>(response: Promise<ClientResponse<T, number, 'json'>>): Promise<T> {
  return (await (await response).json()) as T
}
