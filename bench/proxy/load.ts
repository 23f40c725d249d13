// Requests made on a clock or all at once, and what became of them. Node's own client, one connection each where needed.

import { Agent, request } from 'node:http'

export interface Result {
  status: number
  node: string | null
  attempts: number
  ms: number
  text: string
  broken: boolean
}

const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY })

export function post(url: string, body: object, onData?: () => void): Promise<Result> {
  const began = performance.now()
  const { hostname, port, pathname } = new URL(url)
  const bytes = JSON.stringify(body)
  return new Promise((resolve) => {
    const failed = (error: Error) =>
      resolve({ status: 0, node: null, attempts: 0, ms: performance.now() - began, text: error.message, broken: true })
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(bytes) }
    const asked = request({ hostname, port, path: pathname, method: 'POST', agent, headers }, (response) => {
      const pieces: Buffer[] = []
      const done = (broken: boolean) =>
        resolve({
          status: response.statusCode!,
          node: (response.headers['x-rollout-lab-node'] as string) ?? null,
          attempts: Number(response.headers['x-rollout-lab-attempts'] ?? 0),
          ms: performance.now() - began,
          text: Buffer.concat(pieces).toString(),
          broken,
        })
      response.on('data', (piece) => {
        pieces.push(piece)
        onData?.()
      })
      response.on('end', () => done(false))
      response.on('error', () => done(true))
    })
    asked.on('error', failed)
    asked.end(bytes)
  })
}

/** Sends so many a second for so many seconds, whether or not earlier ones have been answered. */
export async function openLoop(perSecond: number, seconds: number, send: () => Promise<Result>): Promise<Result[]> {
  const all: Promise<Result>[] = []
  const began = performance.now()
  while (performance.now() - began < seconds * 1000) {
    const due = ((performance.now() - began) / 1000) * perSecond
    while (all.length < due) all.push(send())
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
  return Promise.all(all)
}

export function percentile(values: number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

export const CHAT = { model: 'base', messages: [{ role: 'user', content: 'Say ok, and then say it again.' }] }
