// An answer that is an error of ours, in OpenAI's shape. Thrown anywhere before the first byte of an answer.

import type { ErrorView } from './views.ts'

export interface RefusalOptions {
  /** The field that is at fault. */
  param?: string
  retryAfterSeconds?: number
}

export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    sentence: string,
    readonly options: RefusalOptions = {},
  ) {
    super(sentence)
  }

  get view(): ErrorView {
    return {
      error: {
        message: this.message,
        type: TYPES[this.status] ?? kind(this.status),
        param: this.options.param ?? null,
        code: this.code,
      },
    }
  }

  get headers(): Record<string, string> {
    const { retryAfterSeconds } = this.options
    return retryAfterSeconds === undefined ? {} : { 'Retry-After': String(Math.max(1, Math.ceil(retryAfterSeconds))) }
  }
}

const TYPES: Record<number, string> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
}

const kind = (status: number) => (status < 500 ? 'invalid_request_error' : 'server_error')

export function shuttingDown() {
  return new Refusal(503, 'shutting_down', 'The server is being stopped: try again in a moment.', {
    retryAfterSeconds: 10,
  })
}

export function unknownModel(name: string) {
  return new Refusal(404, 'model_not_found', `There is no model ${name}: GET /v1/models lists what there is.`, {
    param: 'model',
  })
}
