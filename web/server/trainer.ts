// A run on the server as a trainer like any other: started by being followed, stopped by being cancelled. It goes on when
// nobody follows.

import type { EngineCapabilities } from '../../server/engines/engine.ts'
import type { RunView } from '../../server/runs/views.ts'
import type { ExportedFile, RunDescription, RunEvent, StartRequest, Trainer } from '../../workers/protocol.ts'
import type { OpenTrainer } from '../connect.ts'
import { adapterFiles } from './artifacts.ts'
import { json } from './ask.ts'
import { answer, api } from './client.ts'
import { follow } from './follow.ts'
import { fetchGroups } from './rollouts.ts'

export interface Line {
  /** Whether the server is heard at the moment. */
  contact(heard: boolean): void
}

type SamplesEvent = Extract<RunEvent, { kind: 'samples' }>

const ENDS = new Set(['succeeded', 'failed', 'cancelled', 'timed_out', 'node_lost'])

export function openServerTrainer(line: Line): OpenTrainer {
  const listeners: ((event: RunEvent) => void)[] = []
  let run: string | null = null
  let unfollow: (() => void) | null = null
  let lose: (sentence: string) => void = () => {}
  const lost = new Promise<string>((resolve) => {
    lose = resolve
  })
  const tell = (event: RunEvent) => {
    for (const listener of listeners) listener(event)
  }

  const trainer: Trainer = {
    async start({ run: id, resume }: StartRequest) {
      run = id
      const param = { id }
      if (resume) await api.runs[':id'].resume.$post({ param }, { init: json({}) })
      const { capabilities } = await answer(api.runs[':id'].$get({ param }))
      return new Promise<RunDescription>((resolve, reject) => {
        const teller = new Teller(id, capabilities, tell, resolve)
        unfollow = follow(id, 0, {
          event: (event) => teller.event(event),
          status: (view) => teller.status(view),
          end(view) {
            const sentence = view
              ? (view.reason ?? 'The run ended before it began.')
              : 'The run was deleted on the server.'
            teller.after(() => {
              if (view === null) lose(sentence)
              reject(new Error(sentence))
            })
          },
          contact: (heard) => line.contact(heard),
          refused(error) {
            lose(error.message)
            reject(error)
          },
        })
      })
    },
    // It plays from the moment in which it was begun.
    play: async () => {},
    async stop() {
      if (run !== null) await api.runs[':id'].cancel.$post({ param: { id: run } }, { init: json({ graceful: true }) })
    },
    pause: refuse('paused'),
    step: refuse('stepped'),
    save: refuse('saved'),
    exportAdapter: (): Promise<ExportedFile[]> => adapterFiles(run ?? ''),
    async subscribe(listener) {
      listeners.push(listener)
    },
  }
  return { trainer, lost, close: () => unfollow?.() }
}

/** Hands events on in their order, as a page expects them of a run that it drives. */
class Teller {
  #run: string
  #capabilities: EngineCapabilities
  #tell: (event: RunEvent) => void
  #started: (description: RunDescription) => void
  #last: Promise<void> = Promise.resolve()
  /** All that is past has been told. */
  #present = false
  #seq = 0
  /** The end of an attempt, until it is known to be that of the run. */
  #held: Extract<RunEvent, { kind: 'state' }> | null = null

  constructor(
    run: string,
    capabilities: EngineCapabilities,
    tell: (event: RunEvent) => void,
    started: (description: RunDescription) => void,
  ) {
    this.#run = run
    this.#capabilities = capabilities
    this.#tell = tell
    this.#started = started
  }

  after(action: () => void | Promise<void>): void {
    this.#last = this.#last.then(action)
  }

  event(event: RunEvent): void {
    this.after(() => this.#take(event))
  }

  status(view: RunView): void {
    this.after(() => {
      this.#present = true
      if (ENDS.has(view.state)) return this.#release(true)
      const sentence = view.reason ?? WAITS[view.state]
      if (sentence === undefined) return
      // Between two counters: it is the server's word about the run, not the run's own.
      const head = {
        run: this.#run,
        attempt: view.attempt,
        seq: this.#seq + 0.5,
        time: view.updatedAt,
        source: 'server',
      }
      this.#tell({ ...head, kind: 'state', state: LIVE[view.state] ?? 'running', reason: sentence })
    })
  }

  async #take(event: RunEvent): Promise<void> {
    this.#seq = event.seq
    this.#release(false)
    if (event.kind === 'state' && ['finished', 'stopped', 'failed'].includes(event.state)) this.#held = event
    else if (event.kind === 'started') {
      const { rollouts, tokens, adapter } = this.#capabilities
      const capabilities = {
        pause: false,
        step: false,
        save: false,
        exportAdapter: adapter,
        tokens: rollouts && tokens,
      }
      const description = { ...event.description, capabilities }
      this.#tell({ ...event, description })
      this.#started(description)
    } else if (event.kind === 'samples' && this.#present) this.#tell(await withGroups(event))
    else this.#tell(event)
  }

  /** With the attempt the run has ended, unless another attempt goes on. */
  #release(isEnd: boolean): void {
    const event = this.#held
    this.#held = null
    if (event) this.#tell(isEnd ? event : { ...event, state: 'loading' })
  }
}

/** What is new is looked at soon; older samples are read when somebody looks. */
async function withGroups(event: SamplesEvent): Promise<SamplesEvent> {
  try {
    const groups = await fetchGroups(event.run, event.step, event.split)
    return { ...event, groups }
  } catch {
    return event
  }
}

const LIVE: Record<string, 'loading' | 'running'> = { queued: 'loading', starting: 'loading' }

const WAITS: Record<string, string | undefined> = {
  queued: 'It waits for its turn on the server.',
  starting: 'The server is starting it.',
  unknown: 'The server cannot see it at the moment; it may well go on.',
}

function refuse(verb: string): () => Promise<never> {
  return async () => {
    throw new Error(`A run on the server cannot be ${verb} from here.`)
  }
}
