// What becomes of one example at one target: compiled, or refused with line, column and reason.

import { load } from '../../configs/load.ts'
import { compile, TARGETS } from '../../server/compile/compile.ts'
import type { TargetId } from '../../server/compile/target.ts'
import { EXAMPLES, read } from './examples.ts'

export interface Verdict {
  file: string
  target: TargetId
  /** Every reason, with its place; null where it was compiled. */
  refused: string[] | null
  text: string | null
}

/** `whole`: a block that leaves environment or model open is given one of the Hub. */
export function verdicts(whole = false): Verdict[] {
  return EXAMPLES.flatMap((file) =>
    (Object.keys(TARGETS) as TargetId[]).map((target): Verdict => {
      const text = read(file)
      const result = compile(text, target, whole ? completed(text) : [])
      if (!result.problems) return { file, target, refused: null, text: result.text }
      const refused = result.problems.map(({ line, column, sentence }) => `${line}:${column} ${sentence}`)
      return { file, target, refused, text: null }
    }),
  )
}

function completed(text: string): string[] {
  const { config } = load(text)
  if (!config) return []
  return [
    ...(config.env.length === 0 ? ['env.0.id=primeintellect/reverse-text'] : []),
    ...(config.model.startsWith('lab-') ? ['model=Qwen/Qwen3-0.6B'] : []),
  ]
}
