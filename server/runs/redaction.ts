// What a run was given in secret, taken out of all that the server tells of it: events, reasons and logs. An engine may
// have done so before it wrote anything; of one that reads what others write, this is the only place.

import type { GroupRecord } from '../../workers/protocol.ts'
import type { Engine, LogPart } from '../engines/engine.ts'
import { type Redactor, redactor } from '../secrets/redact.ts'
import type { GivenEvent } from '../store/events/eventFile.ts'
import type { RunRow } from '../store/tables/runs.ts'
import type { SecretsOf } from './context.ts'

const NOTHING = redactor({})

type Asked = Pick<RunRow, 'id' | 'project' | 'secrets_json'>

export class Redaction {
  /** By run, what this process has seen of its values: also those of a set that was written anew meanwhile. */
  readonly #seen = new Map<string, { values: Set<string>; redactor: Redactor }>()

  constructor(private readonly secrets: SecretsOf) {}

  /** These are given to the run now. */
  given(run: string, variables: Record<string, string>): void {
    if (Object.keys(variables).length === 0) return
    const values = new Set([...(this.#seen.get(run)?.values ?? []), ...Object.values(variables)])
    this.#seen.set(run, { values, redactor: redactor(Object.fromEntries([...values].entries())) })
  }

  /** Throws a sentence where the run's sets are there and cannot be opened. */
  async of(run: Asked, engine: Engine): Promise<Redactor> {
    const sets = JSON.parse(run.secrets_json) as string[]
    if (sets.length === 0) return NOTHING
    if (!this.#seen.has(run.id))
      for (const variables of await Promise.all(sets.map((set) => this.#known(run.project, set, engine))))
        this.given(run.id, variables)
    return this.#seen.get(run.id)?.redactor ?? NOTHING
  }

  async #known(project: string, set: string, engine: Engine): Promise<Record<string, string>> {
    try {
      return await this.secrets(project, [set])
    } catch (error) {
      // A set that was deleted is known to nobody any more.
      if ((error as { status?: number }).status === 404 || engine.redacts) return {}
      throw error
    }
  }

  forget(run: string): void {
    this.#seen.delete(run)
  }
}

export function withoutSecrets(events: GivenEvent[], redact: Redactor): GivenEvent[] {
  if (redact.longest === 0) return events
  return events.map((given) => {
    const event =
      given.kind === 'samples' ? { ...given, groups: given.groups.map((group) => unspelled(group, redact)) } : given
    const json = JSON.stringify(event)
    const redacted = redact.json(json)
    return redacted === json ? event : (JSON.parse(redacted) as GivenEvent)
  })
}

/** Tokens spell a value piece by piece: of a rollout that holds one, its messages alone are told. */
function unspelled(group: GroupRecord, redact: Redactor): GroupRecord {
  const holds = (text: string) => redact.text(text) !== text
  return {
    ...group,
    rollouts: group.rollouts.map((rollout) => {
      const { tokens, messages } = rollout
      if (!tokens || !(holds(tokens.text.join('')) || messages.some(({ content }) => holds(content)))) return rollout
      return { ...rollout, tokens: null }
    }),
  }
}

/** A part of a log as `read` gives it, with its bytes at their offsets; the same ones however the log is asked for. */
export async function readMasked(
  read: (offset: number, most: number) => Promise<LogPart>,
  offset: number,
  most: number,
  redact: Redactor,
): Promise<LogPart> {
  if (redact.longest === 0) return read(offset, most)
  const before = Math.min(offset, redact.longest - 1)
  const part = await read(offset - before, before + most + redact.longest - 1)
  const { bytes, whole } = redact.mask(part.bytes)
  const known = part.eof ? bytes.length : whole
  const end = Math.min(before + most, Math.max(before, known))
  const told = bytes.subarray(before, end)
  return { bytes: told, nextOffset: offset + told.length, eof: part.eof && end >= bytes.length }
}
