// The #SBATCH lines of a script that prime-rl has rendered -> what the same job is asked for over REST, which reads no such
// lines itself. A line that is not known here is a problem: a job that lacks what it asked for would fail late.

export interface Directives {
  nodes?: number
  tasksPerNode?: number
  gres?: string
  exclusive?: boolean
  partition?: string
  account?: string
  time?: string
  nodelist?: string
  exclude?: string
  signal?: string
}

const WORD = /^[A-Za-z0-9_][A-Za-z0-9_.,:@%+[\]-]*$/

const TAKEN: Record<string, (value: string, into: Directives) => void> = {
  nodes: (value, into) => {
    into.nodes = whole(value, 'nodes')
  },
  'ntasks-per-node': (value, into) => {
    into.tasksPerNode = whole(value, 'ntasks-per-node')
  },
  gres: (value, into) => {
    into.gres = value
  },
  exclusive: (_, into) => {
    into.exclusive = true
  },
  signal: (value, into) => {
    // Newer versions of Slurm leave out what they cannot read, and say nothing.
    if (!/^(B:)?[A-Z0-9]+(@\d{1,5})?$/.test(value))
      throw new Error(`rl.sbatch asks for --signal=${value}; expected one like B:TERM@30.`)
    into.signal = value
  },
  ...Object.fromEntries(
    (['partition', 'account', 'time', 'nodelist', 'exclude'] as const).map((name) => [
      name,
      (value: string, into: Directives) => {
        into[name] = value
      },
    ]),
  ),
}

/** Said by the server itself: what the job is called, and where its output goes. */
const OURS = new Set(['job-name', 'output', 'error', 'comment', 'open-mode', 'chdir', 'requeue', 'no-requeue'])

/** Throws a sentence that names the line. */
export function directivesOf(script: string): Directives {
  const into: Directives = {}
  const lines = script.split('\n')
  if (!lines[0].startsWith('#!')) throw new Error('The script that prime-rl wrote does not begin with #!.')
  for (const [i, line] of lines.entries()) {
    const match = /^#SBATCH\s+--([a-z-]+)(?:[=\s](.*))?$/.exec(line.trimEnd())
    if (!match) {
      if (line.startsWith('#SBATCH')) throw new Error(`Line ${i + 1} of rl.sbatch is not understood: ${line}.`)
      continue
    }
    const [, name, value = ''] = match
    if (OURS.has(name)) continue
    const take = TAKEN[name]
    if (!take) throw new Error(`Line ${i + 1} of rl.sbatch asks for --${name}, which is not known here.`)
    if (value !== '' && !WORD.test(value))
      throw new Error(`Line ${i + 1} of rl.sbatch holds more than a word: ${line}.`)
    take(value, into)
  }
  return into
}

function whole(value: string, name: string): number {
  if (!/^[1-9]\d{0,5}$/.test(value))
    throw new Error(`rl.sbatch asks for --${name}=${value}; expected a whole number from 1.`)
  return Number(value)
}
