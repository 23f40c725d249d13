// What may be asked of a node by a user, and where: the whole list. A path is compared as it stands on the wire, so that no
// encoding, dot or doubled slash means anything here.

export interface Route {
  method: 'GET' | 'POST'
  path: string
}

export const ROUTES = [
  { method: 'POST', path: '/v1/chat/completions' },
  { method: 'POST', path: '/v1/completions' },
  { method: 'POST', path: '/v1/embeddings' },
  { method: 'POST', path: '/tokenize' },
  { method: 'POST', path: '/detokenize' },
  { method: 'GET', path: '/v1/models' },
] as const satisfies Route[]

/** The route of a request line, null for everything that is not listed. A query is allowed, and goes no further. */
export function routeOf(method: string, target: string): Route | null {
  const query = target.indexOf('?')
  const path = query < 0 ? target : target.slice(0, query)
  return ROUTES.find((route) => route.method === method && route.path === path) ?? null
}
