// Errors as OpenAI's clients read them: { error: { message, type, param, code } }.

import type { ContentfulStatusCode } from 'hono/utils/http-status'

export interface ApiError {
  error: { message: string; type: string; param: string | null; code: string | null }
}

/** A request that cannot be answered, and why, in a sentence for whoever sent it. */
export class Refused extends Error {
  readonly status: ContentfulStatusCode
  readonly param: string | null
  readonly code: string | null

  constructor(
    status: ContentfulStatusCode,
    sentence: string,
    { param = null, code = null }: { param?: string | null; code?: string | null } = {},
  ) {
    super(sentence)
    this.status = status
    this.param = param
    this.code = code
  }
}

export function errorBody(error: unknown): ApiError {
  const message = error instanceof Error ? error.message : String(error)
  if (!(error instanceof Refused)) return { error: { message, type: 'server_error', param: null, code: null } }
  const { status, param, code } = error
  const type =
    status === 404
      ? 'not_found_error'
      : status === 429
        ? 'rate_limit_error'
        : status >= 500
          ? 'server_error'
          : 'invalid_request_error'
  return { error: { message, type, param, code } }
}
