// What every route of the model server works with.

import type { CompletionRequest } from '../../workers/completions/protocol.ts'
import type { Answer, Prompter } from '../../workers/host.node.ts'
import type { Admission } from './asking.ts'
import type { Engine } from './engine.ts'
import { Refused } from './errors.ts'
import type { Count } from './metrics.ts'

export class Desk {
  constructor(
    readonly engine: Engine,
    readonly admission: Admission,
    readonly count: Count,
  ) {}

  /** The thread's answers, counted; a wrong token id is the asker's mistake. */
  async *answers(
    prompter: Prompter,
    model: string,
    request: Omit<CompletionRequest, 'id'>,
    signal: AbortSignal,
  ): AsyncGenerator<Answer> {
    let ends = 0
    try {
      for await (const event of prompter.complete(request, signal)) {
        if (event.kind === 'part') this.count.sampled(model, event.tokens.length)
        else {
          ends++
          this.count.finished(model, event.reason)
        }
        yield event
      }
    } catch (error) {
      throw asRefusal(error)
    } finally {
      for (; ends < request.n; ends++) this.count.finished(model, 'abort')
    }
  }
}

/** comlink carries an error's name across the thread, not its class. */
export function asRefusal(error: unknown): unknown {
  return error instanceof Error && error.name === 'RangeError'
    ? new Refused(400, error.message, { param: 'prompt' })
    : error
}
