// Names that become a word of a job: whatever a user calls a run, what Slurm, Ray and a folder see is a plain word.

import { isSteering } from '../../secrets/variables.ts'
import { isVariable } from '../../variableNames.ts'

const LONGEST = 63

/** Letters, digits, dots, dashes and underscores, beginning with a letter or digit; `otherwise` where nothing is left. */
export function slug(text: string, otherwise: string): string {
  const plain = text
    .normalize('NFKD')
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, LONGEST)
    .replace(/[^A-Za-z0-9]+$/, '')
  return plain || otherwise
}

/** Why a variable cannot be given to a job; null where it can. */
export function badVariable(name: string): string | null {
  if (!isVariable(name)) return `${JSON.stringify(name)} is no name of a variable.`
  return isSteering(name) ? `${name} changes which programs run on the cluster, and is no secret.` : null
}
