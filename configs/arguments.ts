// The args of an environment, checked against its own knobs where it is bundled here.

import { EnvironmentError, findEnvironment } from '../environments/index.ts'
import type { Check } from './checks.ts'
import { formatPath, type Path, type Table } from './path.ts'
import { sentenceOf } from './sentences.ts'

export interface Placed {
  /** Where id and args stand in the config. */
  id: Path
  args: Path
  value: { id: string; args: Table }
}

export function checkArguments(environments: readonly Placed[]): Check[] {
  return environments.flatMap(({ id, args, value }): Check[] => {
    const loader = bundled(value.id)
    if (typeof loader === 'string') {
      const sentence = `${loader} Full-size runs take it from the Environments Hub; a run here cannot start with it.`
      return [{ path: formatPath(id), kind: 'remote', warning: true, sentence }]
    }
    const parsed = loader.knobs.safeParse(value.args)
    if (parsed.success) return []
    const name = (path: Path) => formatPath([...args, ...path])
    const keys = () => Object.keys(loader.knobs.shape)
    return parsed.error.issues.flatMap((issue) =>
      sentenceOf(issue, value.args, name, keys).map(({ path, what, sentence }) => ({
        path: name(path),
        what,
        sentence,
      })),
    )
  })
}

function bundled(id: string): ReturnType<typeof findEnvironment> | string {
  try {
    return findEnvironment(id)
  } catch (error) {
    if (error instanceof EnvironmentError) return error.message
    throw error
  }
}
