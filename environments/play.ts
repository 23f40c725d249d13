// Plays one rollout with any player in the policy's seat: a gold answer, a person, an endpoint. No tokens, no deadlines.

import type { Environment } from './environment.ts'
import type { Example, Message } from './messages.ts'
import type { State } from './state.ts'

/** Writes the next message; the state's prompt, completion and pending messages are what it has read. */
export type Player<Data extends object = object> = (state: State<Data>) => Message | Promise<Message>

/** The finished state, ready to be scored. Throws after `mostTurns`, so that a player who never ends is found out. */
export async function play<Data extends object>(
  environment: Environment<Data>,
  example: Example,
  player: Player<Data>,
  { seed = 0, mostTurns = 1000 }: { seed?: number; mostTurns?: number } = {},
): Promise<State<Data>> {
  const state = await environment.begin(example, seed)
  for (let turn = 0; turn < mostTurns; turn++) {
    const { done } = await environment.respond(state, await player(state), false)
    if (done) return state
  }
  throw new Error(
    `${environment.id}: no stop condition fired within ${mostTurns} turns of example ${example.exampleId}.`,
  )
}
