// Requests and tokens per minute of a key. A request is paid for before it is sent, tokens when they are known; who owes
// tokens waits until they are earned again. An idle key's account is full, and is forgotten.

import { Refusal } from './refusal.ts'

export interface Rate {
  requests_per_minute?: number
  tokens_per_minute?: number
}

export interface RateConfig {
  rates: Rate
  rate: (Rate & { key?: string; project?: string })[]
}

interface Account {
  at: number
  requests: number
  tokens: number
}

const MINUTE = 60_000
const MOST_ACCOUNTS = 10_000

export class Rates {
  #accounts = new Map<string, Account>()

  constructor(
    private config: RateConfig,
    private readonly now: () => number = Date.now,
  ) {}

  configure(config: RateConfig) {
    this.config = config
  }

  /** Pays for one request, or refuses it with the seconds after which it is welcome. */
  admit(key: string, project: string) {
    const rate = this.#rateOf(key, project)
    if (rate.requests_per_minute === undefined && rate.tokens_per_minute === undefined) return
    const account = this.#account(key, rate)
    if (account.requests < 1) throw this.#refusal('requests', rate.requests_per_minute!, 1 - account.requests)
    if (account.tokens <= 0) throw this.#refusal('tokens', rate.tokens_per_minute!, 1 - account.tokens)
    account.requests--
  }

  spend(key: string, project: string, tokens: number) {
    const rate = this.#rateOf(key, project)
    if (rate.tokens_per_minute !== undefined) this.#account(key, rate).tokens -= tokens
  }

  #rateOf(key: string, project: string): Rate {
    const { rates, rate } = this.config
    if (!rate.length) return rates
    const own =
      rate.find((one) => one.key === key) ?? rate.find((one) => one.key === undefined && one.project === project)
    return own ? { ...rates, ...defined(own) } : rates
  }

  #account(key: string, rate: Rate): Account {
    const now = this.now()
    const {
      requests_per_minute: requests = Number.POSITIVE_INFINITY,
      tokens_per_minute: tokens = Number.POSITIVE_INFINITY,
    } = rate
    const account = this.#accounts.get(key) ?? { at: now, requests, tokens }
    const minutes = (now - account.at) / MINUTE
    account.requests = earned(account.requests, minutes, requests)
    account.tokens = earned(account.tokens, minutes, tokens)
    account.at = now
    this.#accounts.delete(key)
    this.#accounts.set(key, account)
    if (this.#accounts.size > MOST_ACCOUNTS) this.#accounts.delete(this.#accounts.keys().next().value!)
    return account
  }

  #refusal(what: string, perMinute: number, missing: number) {
    const retryAfterSeconds = (missing / perMinute) * 60
    return new Refusal(
      429,
      `${what}_per_minute`,
      `This key may use ${perMinute} ${what} a minute, and has used them.`,
      {
        retryAfterSeconds,
      },
    )
  }
}

function defined<T extends object>(values: T): Partial<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Partial<T>
}

function earned(had: number, minutes: number, perMinute: number): number {
  return perMinute === Number.POSITIVE_INFINITY ? perMinute : Math.min(had + minutes * perMinute, perMinute)
}
