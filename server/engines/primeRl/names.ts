// Names that become a word of a job: whatever a user calls a run, what Slurm, Ray and a folder see is a plain word.

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

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/

/** Programs read these before they do anything, and load what they name. */
const LOADERS = /^(LD_.*|DYLD_.*|PYTHON.*|BASH_.*|ENV|PATH|IFS|PS4|SHELLOPTS|PROMPT_COMMAND|SLURM_.*|ROLLOUT_LAB_.*)$/

/** Why a variable cannot be given to a job; null where it can. */
export function badVariable(name: string): string | null {
  if (!VARIABLE.test(name)) return `${JSON.stringify(name)} is no name of a variable.`
  return LOADERS.test(name) ? `${name} changes which programs run on the cluster, and is no secret.` : null
}
