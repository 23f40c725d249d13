// The events of a run on the server, from any of them on, without gap and without repeat: the browser reconnects by itself
// and names the last one it saw; where it has given up, we do.

import type { RunView } from '../../server/runs/views.ts'
import type { RunEvent } from '../../workers/protocol.ts'
import { ServerRefusal } from './ask.ts'
import { api } from './client.ts'

const AGAIN_MS = 1500

export interface Followed {
  event(event: RunEvent): void
  /** After every event that came before this status. */
  status(view: RunView): void
  /** All has been told; null: the run was deleted. */
  end(view: RunView | null): void
  /** Whether the server is heard at the moment. */
  contact(heard: boolean): void
  /** The server refuses to tell: the run is gone, or nobody is signed in. */
  refused(error: ServerRefusal): void
}

/** @param after the counter of the last event that is known; 0 for none */
export function follow(run: string, after: number, on: Followed): () => void {
  let last = after
  let closed = false
  let source: EventSource | null = null
  let timer: ReturnType<typeof setTimeout> | undefined

  const address = () => {
    const url = api.runs[':id'].events.$url({ param: { id: run } })
    url.search = `after=${last}&brief=true`
    return url
  }

  const connect = () => {
    // Of what is past, events that told only of their moment are left out.
    source = new EventSource(address())
    source.onopen = () => on.contact(true)
    source.addEventListener('run', ({ data }) => {
      const event = JSON.parse(data) as RunEvent
      if (event.seq <= last) return
      last = event.seq
      on.event(event)
    })
    source.addEventListener('status', ({ data }) => on.status(JSON.parse(data) as RunView))
    source.addEventListener('end', ({ data }) => {
      source?.close()
      on.end(JSON.parse(data) as RunView | null)
    })
    source.onerror = () => {
      if (closed) return
      on.contact(false)
      // An answer that is not a stream ends the browser's own trying.
      if (source?.readyState === EventSource.CLOSED) timer = setTimeout(again, AGAIN_MS)
    }
  }
  const again = async () => {
    try {
      await api.runs[':id'].$get({ param: { id: run } })
    } catch (error) {
      if (closed) return
      if (error instanceof ServerRefusal && error.status >= 400 && error.status < 500) return on.refused(error)
      timer = setTimeout(again, AGAIN_MS)
      return
    }
    if (!closed) connect()
  }

  connect()
  return () => {
    closed = true
    clearTimeout(timer)
    source?.close()
  }
}
