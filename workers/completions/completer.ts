// The thread that answers prompts: models by key, text to ids and back, and requests decoded in shared batches. Knows no
// network and no file.

import { answer } from './answering.ts'
import { type Held, type Means, Models } from './models.ts'
import type { Completer, CompleterLoad, CompletionEvent, CompletionRequest, ModelSource } from './protocol.ts'
import { Turns } from './turns.ts'

export function createCompleter(means: Means): Completer {
  const turns = new Turns()
  const models = new Models(means, turns)
  const open = new Map<number, () => void>()
  const listeners: ((events: CompletionEvent[]) => void)[] = []
  let unsaid: CompletionEvent[] = []

  // What several answers say after one chunk crosses in one message.
  const say = (event: CompletionEvent) => {
    if (unsaid.length === 0)
      queueMicrotask(() => {
        const events = unsaid
        unsaid = []
        for (const listener of listeners) listener(events)
      })
    unsaid.push(event)
  }

  return {
    open: async (source: ModelSource) => (await models.open(source)).opened,
    close: async (key) => models.close(key),
    async renderChat(key, messages) {
      return (await models.get(key)).model.template.renderPrompt(messages)
    },
    async encode(key, text) {
      return (await models.get(key)).model.tokenizer.encode(text)
    },
    async decode(key, ids) {
      const held = await models.get(key)
      checkIds(held, ids)
      return held.model.tokenizer.decode(ids)
    },
    async spell(key, ids) {
      const held = await models.get(key)
      checkIds(held, ids)
      return held.model.tokenizer.tokens(ids)
    },
    async score(key, ids) {
      const held = await models.get(key)
      checkIds(held, ids)
      if (ids.length < 2) return []
      const { policy, adapter, model } = held
      const targets = Int32Array.from({ length: ids.length - 1 }, (_, t) => t + 1)
      const rows = [{ ids: Int32Array.from(ids), targets, temperature: 1 }]
      const { logp } = await turns.take(() => policy.logprobs(rows, { adapter }))
      const text = model.tokenizer.tokens(ids)
      return Array.from(logp, (value, t) => ({ token: ids[t + 1], text: text[t + 1], logp: value }))
    },
    async complete(request: CompletionRequest) {
      const held = await models.get(request.key)
      checkIds(held, request.prompt)
      let ends = 0
      const giveUp = answer(request, held.batcher, held.model, (event) => {
        if (event.kind === 'failed' || (event.kind === 'end' && ++ends === request.n)) open.delete(request.id)
        say(event)
      })
      open.set(request.id, giveUp)
    },
    async abort(id) {
      open.get(id)?.()
      open.delete(id)
    },
    async subscribe(listener) {
      listeners.push(listener)
    },
    async load() {
      const loads = (await models.all()).map(({ batcher }) => batcher.load)
      return loads.reduce<CompleterLoad>(
        (sum, { running, waiting }) => ({ running: sum.running + running, waiting: sum.waiting + waiting }),
        { running: 0, waiting: 0 },
      )
    },
  }
}

function checkIds({ model }: Held, ids: number[]): void {
  const { vocabulary } = model.card
  const wrong = ids.findIndex((id) => !Number.isInteger(id) || id < 0 || id >= vocabulary)
  if (wrong >= 0)
    throw new RangeError(
      `Token ${ids[wrong]} at position ${wrong} is not one of ${model.name}: its ids go from 0 to ${vocabulary - 1}.`,
    )
}
