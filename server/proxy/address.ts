// Which addresses a node may have. Metadata services and other link-local addresses are refused whatever the config says,
// and again when a name resolves to one; a name keeps the address it first resolved to until its node goes down.

import { lookup as resolve } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'

const refused = new BlockList()
refused.addSubnet('0.0.0.0', 8)
refused.addSubnet('169.254.0.0', 16)
refused.addSubnet('224.0.0.0', 3)
refused.addAddress('168.63.129.16') // Azure's wire server
refused.addAddress('100.100.100.200') // Alibaba's metadata
refused.addAddress('::', 'ipv6')
refused.addSubnet('fe80::', 10, 'ipv6')
refused.addSubnet('ff00::', 8, 'ipv6')
refused.addAddress('fd00:ec2::254', 'ipv6') // AWS's metadata

/** Whether an IP address is one that no node has. An IPv4 address mapped into IPv6 is judged as itself. */
export function isRefused(address: string): boolean {
  const version = isIP(address)
  if (version === 4) return refused.check(address)
  if (version !== 6) return true
  if (refused.check(address, 'ipv6')) return true
  const mapped = mappedIPv4(address)
  return mapped !== null && refused.check(mapped)
}

/** The sentence that refuses a node's URL, null for one that may be used. */
export function addressProblem(text: string): string | null {
  if (!URL.canParse(text)) return `${text} is not a URL: write http://host:port.`
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    return `A node is reached by http or https, not by ${url.protocol}//.`
  if (url.username || url.password) return `A node's URL holds no credentials: name its key's variable with key_env.`
  if (url.search || url.hash) return `A node's URL ends with its path: ${url.search || url.hash} is too much.`
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (isIP(host) && isRefused(host)) return `${host} is a link-local or metadata address: no node is there.`
  return null
}

/** A lookup for one node's connections. `forget` lets a name resolve anew. */
export function pinnedLookup(): { lookup: LookupFunction; forget(): void } {
  const pinned = new Map<string, { address: string; family: number }[]>()
  const lookup: LookupFunction = (hostname, options, callback) => {
    const answer = (addresses: { address: string; family: number }[]) => {
      if (options.all) callback(null, addresses)
      else callback(null, addresses[0].address, addresses[0].family)
    }
    const known = pinned.get(hostname)
    if (known) return answer(known)
    resolve(hostname, { all: true, verbatim: true }, (error, addresses) => {
      if (error) return callback(error, '')
      const bad = addresses.find(({ address }) => isRefused(address))
      if (bad) {
        const sentence = `${hostname} resolves to ${bad.address}, a link-local or metadata address: no node is there.`
        return callback(Object.assign(new Error(sentence), { code: 'EREFUSEDADDRESS' }), '')
      }
      pinned.set(hostname, addresses)
      answer(addresses)
    })
  }
  return { lookup, forget: () => pinned.clear() }
}

/** `::ffff:169.254.1.2` and `::ffff:a9fe:102` as 169.254.1.2. */
function mappedIPv4(address: string): string | null {
  const { hostname } = new URL(`http://[${address.replace(/%.*$/, '')}]`)
  const groups = hostname.match(/^\[::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})\]$/)
  if (!groups) return null
  const [high, low] = [groups[1], groups[2]].map((group) => Number.parseInt(group, 16))
  return [high >> 8, high & 255, low >> 8, low & 255].join('.')
}
