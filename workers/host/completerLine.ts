// The line between a host and the thread that answers prompts, by comlink; and requests over it, each with its own
// listener. Loads nothing that computes: a page imports it.

import { type Endpoint, proxy, wrap } from 'comlink'
import type { AnsweringBackend, Completer, CompletionEvent, CompletionRequest } from '../completions/protocol.ts'
import type { Place } from './link.ts'

export interface CompleterDoor extends Completer {
  attach(place: Place, backend: AnsweringBackend): Promise<void>
}

export type Answer = Exclude<CompletionEvent, { kind: 'failed' }>

/** A completer whose requests are read one by one. */
export interface Prompter extends Omit<Completer, 'complete' | 'abort' | 'subscribe'> {
  /**
   * The parts and ends of n answers, in the order of their coming. Throws the thread's sentence when it fails; an abort
   * ends it quietly, and the thread decodes no further.
   */
  complete(request: Omit<CompletionRequest, 'id'>, signal?: AbortSignal): AsyncGenerator<Answer>
}

export async function reachCompleter(
  endpoint: Endpoint,
  place: Place,
  backend: AnsweringBackend,
  lost: Promise<string>,
): Promise<Prompter> {
  const remote = wrap<CompleterDoor>(endpoint)
  const mailboxes = new Map<number, Mailbox>()
  let gone: string | null = null
  const unanswered = new Set<(error: Error) => void>()
  lost.then((sentence) => {
    gone = sentence
    for (const reject of unanswered) reject(new Error(sentence))
    for (const [id, mailbox] of mailboxes) mailbox.put({ id, kind: 'failed', sentence })
  })
  // A call to a thread that ends is never answered.
  const alive = <T>(call: Promise<T>): Promise<T> =>
    new Promise<T>((resolve, reject) => {
      if (gone !== null) return reject(new Error(gone))
      unanswered.add(reject)
      call.then(resolve, reject).finally(() => unanswered.delete(reject))
    })
  await alive(remote.attach(place, backend))
  await alive(
    remote.subscribe(
      proxy((events: CompletionEvent[]) => {
        for (const event of events) mailboxes.get(event.id)?.put(event)
      }),
    ),
  )
  let next = 0

  async function* complete(request: Omit<CompletionRequest, 'id'>, signal?: AbortSignal): AsyncGenerator<Answer> {
    if (signal?.aborted) return
    const id = next++
    const mailbox = new Mailbox()
    mailboxes.set(id, mailbox)
    const wake = () => mailbox.shut()
    signal?.addEventListener('abort', wake, { once: true })
    let ends = 0
    try {
      await alive(remote.complete({ ...request, id }))
      for (;;) {
        const event = await mailbox.take()
        if (event === null) return
        if (event.kind === 'failed') {
          ends = request.n
          throw new Error(event.sentence)
        }
        if (event.kind === 'end') ends++
        yield event
        if (ends === request.n) return
      }
    } finally {
      mailboxes.delete(id)
      signal?.removeEventListener('abort', wake)
      if (ends < request.n && gone === null) remote.abort(id).catch(() => {})
    }
  }

  return {
    open: (source) => alive(remote.open(source)),
    close: (key) => alive(remote.close(key)),
    renderChat: (key, messages) => alive(remote.renderChat(key, messages)),
    encode: (key, text) => alive(remote.encode(key, text)),
    decode: (key, ids) => alive(remote.decode(key, ids)),
    spell: (key, ids) => alive(remote.spell(key, ids)),
    score: (key, ids) => alive(remote.score(key, ids)),
    load: () => alive(remote.load()),
    complete,
  }
}

/** What has come and was not read yet. */
class Mailbox {
  #events: CompletionEvent[] = []
  #shut = false
  #wake: (() => void) | null = null

  put(event: CompletionEvent): void {
    this.#events.push(event)
    this.#wake?.()
  }

  shut(): void {
    this.#shut = true
    this.#wake?.()
  }

  /** null when nobody wants to know any more. */
  async take(): Promise<CompletionEvent | null> {
    while (!this.#shut && this.#events.length === 0)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    this.#wake = null
    return this.#shut ? null : this.#events.shift()!
  }
}
