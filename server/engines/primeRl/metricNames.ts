// Metrics as prime-rl names them -> the names of a run here. What has no name here keeps its own.

import { METRICS } from '../../../workers/rl/metrics.ts'

interface Pattern {
  theirs: RegExp
  /** With $1, $2, … for what the names stand for. */
  ours: string
}

const PATTERNS: Pattern[] = METRICS.flatMap(({ key, primeRl }) => {
  if (primeRl === null || primeRl.includes(' ')) return []
  const names: string[] = []
  const theirs = primeRl.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/<([^>]+)>/g, (_, name: string) => {
    names.push(name)
    return '([^/]+)'
  })
  const ours = key.replace(/<([^>]+)>/g, (_, name: string) => {
    const at = names.indexOf(name)
    return at < 0 ? `<${name}>` : `$${at + 1}`
  })
  return [{ theirs: new RegExp(`^${theirs}$`), ours }]
})

const known = new Map<string, string>()

/** `train/agg/all/agent/reward/mean` is `reward/mean`. */
export function ourName(theirs: string): string {
  let name = known.get(theirs)
  if (name === undefined) {
    // Totals over all environments are not one environment's.
    const pattern = PATTERNS.find((each) => each.theirs.test(theirs) && !isTotal(theirs, each))
    name = pattern ? theirs.replace(pattern.theirs, pattern.ours) : theirs
    if (known.size < 10_000) known.set(theirs, name)
  }
  return name
}

const isTotal = (theirs: string, { ours }: Pattern): boolean =>
  theirs.startsWith('train/agg/') && /^reward\/\$/.test(ours)

export function ourMetrics(theirs: Record<string, unknown>): Record<string, number> {
  const metrics: Record<string, number> = {}
  for (const [name, value] of Object.entries(theirs))
    if (typeof value === 'number' && Number.isFinite(value)) metrics[ourName(name)] = value
  return metrics
}
