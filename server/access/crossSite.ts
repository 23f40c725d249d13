// Tells requests that another page makes in the name of the person who is signed in here. Plain functions of headers.

export interface Asked {
  method: string
  /** As the browser sent them; null where it did not. */
  site: string | null
  origin: string | null
  /** Origins of this server: that of the request's own host, and the public one. */
  own: readonly string[]
}

const READS = new Set(['GET', 'HEAD', 'OPTIONS'])

/**
 * A sentence for a request that comes from elsewhere, null for one of our own page or of a program. `cookie`: it is
 * signed in by its cookie, which any page of the same host can make a browser send; ports are no border to a cookie.
 */
export function cameFromElsewhere({ method, site, origin, own }: Asked, cookie: boolean): string | null {
  const reads = READS.has(method)
  if (site !== null) {
    if (site === 'same-origin') return null
    // Typed into the address bar, or followed from a program. Nobody writes that way.
    if (site === 'none' && reads) return null
    if (reads && !cookie) return null
    return `This request comes from another page (${site}), and is made only from this server's own.`
  }
  if (origin !== null) {
    if (own.includes(origin) || (reads && !cookie)) return null
    return `This request comes from ${origin.slice(0, 200)}, and is made only from ${own.join(' or ')}; behind another address, set server.public_url.`
  }
  if (reads || !cookie) return null
  return 'This request is signed in by a cookie but does not say from which page it comes (Origin, Sec-Fetch-Site): a program uses a key.'
}
