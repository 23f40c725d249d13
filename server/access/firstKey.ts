// The first operator key. Whoever can open the store may have one: there is no other way back when all keys are lost.

import { KeyProblem, type Keys } from './keys.ts'
import { DEFAULT_PROJECT } from './principal.ts'

/** A new key, or a sentence where an operator has one already. */
export async function firstKey(keys: Keys): Promise<{ key: string; name: string } | { sentence: string }> {
  const list = await keys.list()
  const now = Date.now()
  const good = list.find(
    ({ scopes, revokedAt, expiresAt }) =>
      scopes.includes('operator') && revokedAt === null && (expiresAt === null || Date.parse(expiresAt) > now),
  )
  if (good)
    return {
      sentence: `There is an operator key already: ${good.name} (${good.hint}…), made ${good.createdAt}. With it, \`rollout-lab keys create\` makes others; revoked, this makes a new one.`,
    }
  for (let number = 1; ; number++) {
    const name = number === 1 ? 'operator' : `operator-${number}`
    try {
      const { key } = await keys.create(
        { name, project: DEFAULT_PROJECT, scopes: ['operator'], expiresAt: null },
        'serve --init',
      )
      return { key, name }
    } catch (error) {
      if (!(error instanceof KeyProblem) || error.status !== 409) throw error
    }
  }
}
