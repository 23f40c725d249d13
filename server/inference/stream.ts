// Server-sent events as OpenAI's clients read them: one JSON a `data:` line and [DONE] at the end; a failure in the middle is
// one error event, and no [DONE]. A reader that leaves is passed on at once.

import type { Context } from 'hono'
import { errorBody } from './errors.ts'

/**
 * @param leave called once, when the last event is out or the reader has left
 * @param abort ends `chunks` while it waits for its next one
 */
export function eventStream(
  c: Context,
  chunks: AsyncGenerator<object>,
  { leave, abort }: { leave: () => void; abort: AbortController },
): Response {
  const encoder = new TextEncoder()
  const line = (value: string) => encoder.encode(`data: ${value}\n\n`)
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { value, done } = await chunks.next()
        if (!done) return controller.enqueue(line(JSON.stringify(value)))
        controller.enqueue(line('[DONE]'))
      } catch (error) {
        controller.enqueue(line(JSON.stringify(errorBody(error))))
      }
      leave()
      controller.close()
    },
    async cancel() {
      leave()
      abort.abort()
      await chunks.return(undefined)
    },
  })
  c.header('Content-Type', 'text/event-stream; charset=utf-8')
  c.header('Cache-Control', 'no-cache')
  c.header('X-Accel-Buffering', 'no')
  return c.body(body)
}
