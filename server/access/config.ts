// The tables of server.toml that say where the server listens and whom it answers: [server] and [access].

import { isIP } from 'node:net'
import { z } from 'zod'
import { isLoopback } from './hosts.ts'

const hostname = z
  .string()
  .regex(/^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)$/, 'expected a host name in lower case, without a scheme or a port')

const webOrigin = z.string().refine((text) => {
  try {
    return /^https?:$/.test(new URL(text).protocol) && new URL(text).origin === text
  } catch {
    return false
  }
}, 'expected an address without a path, such as https://lab.example')

export const serverSchema = z.strictObject({
  /** The address to listen on. Any but one of this machine is refused until there is a key. */
  host: z.string().min(1).default('127.0.0.1'),
  port: z.number().int().min(0).max(65_535).default(5173),
  /** Host names beyond those of this machine under which the server may be asked. */
  hosts: z.array(hostname).default([]),
  /** How people reach it when something stands in front: the origin of the page, and whether cookies may be Secure. */
  public_url: webOrigin.optional(),
  /** How long open answers may go on after the server is told to stop. */
  shutdown_seconds: z.number().min(0).max(3600).default(30),
})

export const accessSchema = z.strictObject({
  /** Pages of other origins that may ask with a key. */
  origins: z.array(webOrigin).default([]),
  /** How long a page stays signed in without being used. */
  session_hours: z.number().positive().max(9600).default(720),
  /** How long a one-time link waits to be opened. */
  link_hours: z.number().positive().max(168).default(24),
  /** How long the audit log is kept. */
  audit_days: z.number().int().positive().default(365),
})

export type ServerTable = z.output<typeof serverSchema>
export type AccessTable = z.output<typeof accessSchema>

/** Whether anybody but this machine can reach the server, directly or through something in front of it. */
export type Reach = 'loopback' | 'network'

export function reachOf({ host, hosts, public_url }: ServerTable): Reach {
  const names = [host, ...hosts, ...(public_url ? [new URL(public_url).hostname] : [])]
  return names.every(isLoopback) ? 'loopback' : 'network'
}

/** Names beyond those of this machine that the server answers to. */
export function namesOf({ host, hosts, public_url }: ServerTable): string[] {
  const listens = isIP(host) === 6 ? `[${host}]` : host
  const everywhere = ['0.0.0.0', '[::]'].includes(listens)
  return [...(public_url ? [new URL(public_url).hostname] : []), ...hosts, ...(everywhere ? [] : [listens])].filter(
    (name) => !isLoopback(name),
  )
}
