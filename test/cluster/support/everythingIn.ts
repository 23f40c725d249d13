import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** The text of every file below a folder. */
export async function everythingIn(folder: string): Promise<string> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true })
  const texts = await Promise.all(
    entries
      .filter((entry) => entry.isFile())
      .map((entry) => readFile(join(entry.parentPath ?? entry.path, entry.name), 'latin1')),
  )
  return texts.join('\n')
}
