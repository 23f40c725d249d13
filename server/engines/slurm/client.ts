// slurmrestd as a few calls. Decides by job ids and error numbers, and by the HTTP status only where newer versions say
// nothing else; a controller that is away and a token that is bad may answer alike, so a new token is tried once before
// anything is called away.

import { isTable } from '../../../configs/path.ts'
import { complaintsOf, listOf, type SlurmComplaint, statusesOf } from './answer.ts'
import { jobOf, nodeOf, partitionOf } from './decode.ts'
import { dialectOf, type SlurmDialect } from './dialect.ts'
import type { SlurmJob, SlurmJobSpec, SlurmNode, SlurmPartition } from './job.ts'

export interface SlurmClientOptions {
  /** `http://head:6820`. */
  url: string
  user: string
  token: (options?: { fresh?: boolean }) => Promise<string>
  /** Fixed where given; else the newest one that the server speaks and that is known here. */
  dialect?: SlurmDialect
  /** A controller that is down takes up to 18 s to say so. */
  deadlineMs?: number
}

/** `unreachable`: nothing is known, ask again later. `refused`: Slurm said no, and why. */
export class SlurmError extends Error {
  override name = 'SlurmError'
  constructor(
    readonly kind: 'unreachable' | 'refused',
    message: string,
    readonly number: number | null = null,
  ) {
    super(message)
  }
}

const NUMBER = {
  NO_CONTROLLER: -1,
  NOT_READ: 9001,
  INVALID_PARTITION: 2000,
  ACCESS_DENIED: 2002,
  USER_ID: 2010,
  UNAVAILABLE_RESOURCES: 2014,
  INVALID_JOB: 2017,
  HELD: 2042,
  INVALID_ACCOUNT: 2045,
  FINISHED: 2021,
  ALREADY_FINISHED: 2084,
}

/** A token that is bad or too old, and what looks like it: a controller that is away. */
function wantsToken(answer: unknown, status: number, complaints: SlurmComplaint[]): boolean {
  if (status === 511) return true
  // What was asked for could not be read; that comes with NO_CONTROLLER's number too.
  if (complaints.some(({ number }) => number === NUMBER.NOT_READ)) return false
  const pings = listOf(isTable(answer) ? answer.pings : undefined)
  if (pings.some(({ responding }) => responding === false) && !pings.some(({ responding }) => responding)) return true
  return complaints.some(
    ({ number, source }) => number === NUMBER.NO_CONTROLLER || number === 1007 || /load_ctl_conf/.test(source),
  )
}

/** What newer versions say when the controller was not reached, or did not answer: something may have happened. */
function isSilent(status: number, complaints: SlurmComplaint[]): boolean {
  if (status === 502 || status === 504) return true
  return complaints.some(
    ({ number, source }) =>
      [1000, 1800, 5000].some((first) => number >= first && number < first + 10) ||
      (number === 1 && source.startsWith('slurm_kill_jobs')),
  )
}

export class SlurmClient {
  #dialect: SlurmDialect | null

  constructor(readonly options: SlurmClientOptions) {
    this.#dialect = options.dialect ?? null
  }

  /** Which version is spoken with this server. Asked once. */
  async dialect(): Promise<SlurmDialect> {
    if (this.#dialect) return this.#dialect
    const { answer } = await this.#ask('GET', '/openapi/v3')
    const paths = isTable(answer) && isTable(answer.paths) ? Object.keys(answer.paths) : []
    const dialect = dialectOf(paths)
    if (!dialect)
      throw new SlurmError(
        'refused',
        `${this.options.url} speaks no version of Slurm's API that is known here (v0.0.38, v0.0.40 to v0.0.44).`,
      )
    this.#dialect = dialect
    return dialect
  }

  /** Resolves when slurmrestd and its controller answer. */
  async ping(): Promise<void> {
    await this.#call('GET', '/ping')
  }

  /** Makes the job; held where the spec says so. Throws Slurm's reason in a sentence. */
  async submit(spec: SlurmJobSpec): Promise<number> {
    const dialect = await this.dialect()
    const { answer, complaints } = await this.#call('POST', '/job/submit', dialect.encode(spec), true)
    // A held job is made and answered with a complaint about being held.
    const id = isTable(answer) ? Number(answer.job_id) : Number.NaN
    const refusal = complaints.find(({ number }) => number !== NUMBER.HELD && number !== 0)
    if (refusal) throw refused(refusal, spec)
    if (!Number.isInteger(id) || id <= 0)
      throw new SlurmError('unreachable', `${this.options.url} answered a submit with neither an id nor an error.`)
    return id
  }

  /** Lets a held job run. True too where it already runs or has ended. */
  async release(id: number): Promise<void> {
    const { complaints } = await this.#call('POST', `/job/${id}`, { hold: false }, true)
    const refusal = complaints.find(({ number }) => ![0, NUMBER.HELD, NUMBER.ALREADY_FINISHED].includes(number))
    if (refusal) throw refused(refusal)
  }

  /**
   * Ends the job, or sends it a signal. Ending one that has ended is no error. Whose it is is asked first: the controller
   * of Slurm 24.11.5 has been seen to hang for good when it was to refuse this.
   */
  async cancel(id: number, signal?: string): Promise<void> {
    const job = await this.job(id)
    if (!job) return
    if (job.user !== this.options.user) throw refused({ number: NUMBER.ACCESS_DENIED, sentence: '', source: '' })
    const path = signal ? `/job/${id}?signal=${encodeURIComponent(signal)}` : `/job/${id}`
    const { answer, complaints } = await this.#call('DELETE', path, undefined, true)
    const harmless: number[] = [0, NUMBER.INVALID_JOB, NUMBER.FINISHED, NUMBER.ALREADY_FINISHED]
    const refusal = [...complaints, ...statusesOf(answer)].find(({ number }) => !harmless.includes(number))
    if (refusal) throw refused(refusal)
  }

  /** null for an id that Slurm does not know: it forgets jobs some minutes after their end. */
  async job(id: number): Promise<SlurmJob | null> {
    const { answer, complaints } = await this.#call('GET', `/job/${id}`, undefined, true)
    const refusal = complaints.find(({ number }) => number !== NUMBER.INVALID_JOB && number !== 0)
    if (refusal) throw refused(refusal)
    const [raw] = listOf(isTable(answer) ? answer.jobs : undefined)
    return raw ? jobOf(raw, await this.dialect()) : null
  }

  /** Jobs of every user that this one may see; since a time in milliseconds where given. */
  async jobs(since?: number): Promise<SlurmJob[]> {
    const query = since === undefined ? '' : `?update_time=${Math.floor(since / 1000)}`
    const { answer } = await this.#call('GET', `/jobs${query}`)
    const dialect = await this.dialect()
    return listOf(isTable(answer) ? answer.jobs : undefined).map((raw) => jobOf(raw, dialect))
  }

  async nodes(): Promise<SlurmNode[]> {
    const { answer } = await this.#call('GET', '/nodes')
    return listOf(isTable(answer) ? answer.nodes : undefined).map(nodeOf)
  }

  async partitions(): Promise<SlurmPartition[]> {
    const { answer } = await this.#call('GET', '/partitions')
    return listOf(isTable(answer) ? answer.partitions : undefined).map(partitionOf)
  }

  /** `lenient` leaves complaints to the caller; others throw the first one. */
  async #call(method: string, path: string, body?: unknown, lenient = false) {
    const { version } = await this.dialect()
    const result = await this.#ask(method, `/slurm/${version}${path}`, body)
    const [first] = result.complaints
    if (!lenient && first && first.number !== 0) throw refused(first)
    return result
  }

  async #ask(method: string, path: string, body?: unknown) {
    let said = await this.#send(method, path, body, false)
    // Nothing has happened yet, so that it may be sent again.
    if (said.wantsToken) said = await this.#send(method, path, body, true)
    if (said.away) throw new SlurmError('unreachable', said.away, NUMBER.NO_CONTROLLER)
    return said
  }

  async #send(method: string, path: string, body: unknown, fresh: boolean) {
    const { url, user, token, deadlineMs = 25_000 } = this.options
    const headers: Record<string, string> = {
      'x-slurm-user-name': user,
      'x-slurm-user-token': await token({ fresh }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    }
    let status: number
    let text: string
    try {
      const response = await fetch(`${url}${path}`, {
        ...{ method, headers, redirect: 'error' as const, signal: AbortSignal.timeout(deadlineMs) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      status = response.status
      text = await response.text()
    } catch (error) {
      const why =
        error instanceof Error ? ((error.cause as Error | undefined)?.message ?? error.message) : String(error)
      throw new SlurmError('unreachable', `slurmrestd at ${url} cannot be reached: ${why}.`)
    }
    const answer = parsed(text)
    if (answer === undefined)
      return {
        ...{ answer, complaints: [] as SlurmComplaint[], wantsToken: true },
        away: `slurmrestd at ${url} answered ${status}: ${text.slice(0, 200).trim() || 'nothing'}. ${tokenAdvice(user)}`,
      }
    const complaints = complaintsOf(answer)
    const again = wantsToken(answer, status, complaints)
    return {
      ...{ answer, complaints, wantsToken: again },
      away:
        again || isSilent(status, complaints)
          ? `Slurm's controller does not answer slurmrestd at ${url}. ${tokenAdvice(user)}`
          : null,
    }
  }
}

const tokenAdvice = (user: string) =>
  `If the controller runs, its JWT key is another one, its clock differs by minutes, or it has no user ${user}.`

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function refused({ number, sentence }: SlurmComplaint, spec?: SlurmJobSpec): SlurmError {
  const said = sentence.replace(/[.\s]+$/, '')
  return new SlurmError('refused', ADVICE[number]?.(spec, said) ?? `Slurm refused: ${said} (${number}).`, number)
}

const NOT_YOURS = 'Slurm does not let this project touch that job: it belongs to another user of the cluster.'

const ADVICE: Record<number, (spec: SlurmJobSpec | undefined, said: string) => string> = {
  [NUMBER.INVALID_PARTITION]: (spec) =>
    `Slurm has no partition ${spec?.partition ? `"${spec.partition}"` : 'of that name'}: name one of those that it lists, in slurm.partition.`,
  [NUMBER.ACCESS_DENIED]: () => NOT_YOURS,
  [NUMBER.USER_ID]: () => NOT_YOURS,
  [NUMBER.UNAVAILABLE_RESOURCES]: (spec, said) =>
    `No node can give what is asked for (${spec?.nodes ?? '?'} nodes with ${spec?.gres ?? 'no GPUs'}): ask for less in [deployment], or name another partition. Slurm says: ${said}.`,
  [NUMBER.INVALID_ACCOUNT]: (spec) =>
    `Slurm does not know the account ${spec?.account ?? ''} for this user: name another in slurm.account, or leave it out.`,
}
