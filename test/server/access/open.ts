// The routes that ask nobody who they are.

/** What anybody may ask of a server of this machine, and why nothing is lost by it. */
export const OPEN = new Map([
  ['GET /', 'the page'],
  ['GET /healthz', 'whether the process answers'],
  ['GET /readyz', 'names of parts'],
  ['GET /metrics', 'counts, without a name'],
  ['GET /api/health', 'whether the process answers'],
  ['GET /api/openapi.json', 'this list'],
  ['GET /api/docs', 'this list'],
  ['GET /api/session', 'who is signed in: nobody'],
  ['POST /api/session', 'takes a token or a key'],
  ['DELETE /api/session', 'signs out whoever asks'],
  ['POST /api/compile', 'a function of its body'],
])
