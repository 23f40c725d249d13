// The bundled environments. Adding one is a folder and a line here.

import type { Environment } from './environment.ts'
import * as load from './loader.ts'
import { loader as reverseText } from './reverse-text/index.ts'

export const environments: readonly load.EnvironmentLoader[] = [reverseText]

/** The loader of an id, or a sentence that names the nearest and lists the known. */
export function findEnvironment(id: string, loaders = environments): load.EnvironmentLoader {
  return load.findEnvironment(id, loaders)
}

export function openEnvironment(id: string, args: unknown = {}, loaders = environments): Promise<Environment> {
  return load.openEnvironment(id, args, loaders)
}

/** The cold-start text of an environment. */
export function openDemonstrations(
  id: string,
  args: unknown = {},
  loaders = environments,
): Promise<load.Demonstrations> {
  return load.openDemonstrations(id, args, loaders)
}

export { EnvironmentError, parseArgs } from './loader.ts'
