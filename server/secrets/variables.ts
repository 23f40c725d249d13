// What a secret set may hold: variables for the process of a run. Names that would change what that process runs are
// refused, for whoever may upload a set may not thereby run code.

import { isVariable, loadsPrograms } from '../variableNames.ts'

/** Beside what loads programs: where they look for their own, and what a job is told by its scheduler and by us. */
const STEERING = /^(HOME|SHELL|TMPDIR|SLURM_.*|ROLLOUT_LAB_.*)$/
const MOST = 100
const LONGEST_VALUE = 32 * 1024
const LARGEST_SET = 128 * 1024

/** A sentence for what a set cannot be, null for one that it can. Values are in no sentence. */
export function problemOf(variables: Record<string, string>): string | null {
  const entries = Object.entries(variables)
  if (entries.length === 0) return 'A secret set holds at least one variable, NAME=value.'
  if (entries.length > MOST) return `A secret set holds at most ${MOST} variables; this one has ${entries.length}.`
  for (const [name, value] of entries) {
    if (!isVariable(name))
      return `${JSON.stringify(name.slice(0, 130))} is no name of a variable: letters, digits and underscores.`
    if (isSteering(name)) return `${name} decides what a program runs, so it cannot be a secret: leave it out.`
    if (value.includes('\0')) return `The value of ${name} holds a zero byte, which no variable can.`
    if (Buffer.byteLength(value) > LONGEST_VALUE) return `The value of ${name} is longer than ${LONGEST_VALUE} bytes.`
  }
  const bytes = entries.reduce((sum, [name, value]) => sum + name.length + Buffer.byteLength(value), 0)
  return bytes > LARGEST_SET ? `A secret set holds at most ${LARGEST_SET} bytes; this one has ${bytes}.` : null
}

/** Whether a variable decides what a program runs, and so cannot be a secret. */
export function isSteering(name: string): boolean {
  return loadsPrograms(name) || STEERING.test(name)
}
