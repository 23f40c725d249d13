// Tokens of hubs, kept in this browser alone, one for each address: never in a config, a link, an event or a log. A
// worker reads them where it fetches.

import { openDB } from 'idb'

const NAME = 'rollout-lab-tokens'

export async function readToken(base: string): Promise<string | null> {
  return inDatabase(async (database) => ((await database.get('tokens', base)) as string | undefined) ?? null)
}

/** null forgets it. */
export async function putToken(base: string, token: string | null): Promise<void> {
  await inDatabase(async (database) => {
    if (token === null) await database.delete('tokens', base)
    else await database.put('tokens', token, base)
  })
}

async function inDatabase<T>(work: (database: Awaited<ReturnType<typeof openDB>>) => Promise<T>): Promise<T> {
  const database = await openDB(NAME, 1, { upgrade: (fresh) => void fresh.createObjectStore('tokens') })
  try {
    return await work(database)
  } finally {
    database.close()
  }
}
