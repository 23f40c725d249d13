// What is wrong with a request, as a status and a sentence.

import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { Problem as ConfigProblem } from '../../configs/load.ts'

export class Refused extends Error {
  override name = 'Refused'
  readonly status: ContentfulStatusCode
  readonly problems: ConfigProblem[]

  constructor(status: ContentfulStatusCode, sentence: string, problems: ConfigProblem[] = []) {
    super(sentence)
    this.status = status
    this.problems = problems
  }
}

export function noRun(id: string): Refused {
  return new Refused(404, `There is no run ${id} here.`)
}
