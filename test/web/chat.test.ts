// A conversation: what is sent, what is kept, and what is given back when no answer comes.

import { describe, expect, it } from 'vitest'
import type { ChatEvent, ChatMessage, Speaker } from '../../web/chat/speaker.ts'
import { Chat } from '../../web/state/chat.svelte.ts'

const part = (text: string): ChatEvent => ({
  kind: 'part',
  text,
  tokens: [{ text, logp: -0.5, alternatives: [] }],
})

/** Says these events, and remembers what it was told. */
function speaker(events: ChatEvent[], failure?: Error): Speaker & { heard: ChatMessage[][] } {
  const heard: ChatMessage[][] = []
  return {
    heard,
    async *say(messages, _settings, signal) {
      heard.push(messages)
      for (const event of events) {
        await Promise.resolve()
        signal.throwIfAborted()
        yield event
      }
      if (failure) throw failure
    },
  }
}

const END: ChatEvent = { kind: 'end', reason: 'stop', promptTokens: 3, tokens: 2 }

describe('a chat', () => {
  it('sends the system prompt and all turns, and keeps the answer with who gave it', async () => {
    const chat = new Chat()
    const one = speaker([{ kind: 'from', node: 'a', attempts: 2 }, part('he'), part('llo'), END])
    chat.system = 'Reverse.'
    chat.written = 'olleh'
    await chat.send('nano', one)
    chat.written = 'again?'
    await chat.send('nano', one)
    expect(one.heard[1]).toEqual([
      { role: 'system', content: 'Reverse.' },
      { role: 'user', content: 'olleh' },
      { role: 'assistant', content: 'hello' },
      { role: 'user', content: 'again?' },
    ])
    expect(chat.turns[1]).toMatchObject({ text: 'hello', model: 'nano', node: 'a', attempts: 2, end: 'stop' })
    expect(chat.turns[1].tokens).toHaveLength(2)
    expect(chat.written).toBe('')
  })

  it('answers anew in the place of the last answer', async () => {
    const chat = new Chat()
    chat.written = 'a'
    await chat.send('m', speaker([part('x'), END]))
    const other = speaker([part('y'), END])
    await chat.again('m', other)
    expect(chat.turns.map(({ text }) => text)).toEqual(['a', 'y'])
    expect(other.heard[0]).toEqual([{ role: 'user', content: 'a' }])
  })

  it('gives the question back when no answer came, and keeps a cut answer', async () => {
    const chat = new Chat()
    chat.written = 'a'
    await chat.send('m', speaker([], new Error('429 Too many requests wait.')))
    expect([chat.turns, chat.written, chat.problem]).toEqual([[], 'a', 'Too many requests wait.'])
    await chat.send('m', speaker([part('x')], new Error('The node died.')))
    expect(chat.turns.map(({ text }) => text)).toEqual(['a', 'x'])
    expect([chat.turns[1].end, chat.problem, chat.busy]).toEqual(['stopped', 'The node died.', false])
  })

  it('stops where it is told to, without a complaint', async () => {
    const chat = new Chat()
    chat.written = 'a'
    const endless: Speaker = {
      async *say(_messages, _settings, signal) {
        for (let i = 0; ; i++) {
          if (i === 3) chat.stop()
          signal.throwIfAborted()
          yield part('x')
        }
      },
    }
    await chat.send('m', endless)
    expect(chat.turns[1]).toMatchObject({ text: 'xxx', end: 'stopped' })
    expect(chat.problem).toBeNull()
  })

  it('begins anew with the messages of a prompt', () => {
    const chat = new Chat()
    chat.take([
      { role: 'system', content: 'S' },
      { role: 'user', content: 'U' },
    ])
    expect([chat.system, chat.written, chat.turns]).toEqual(['S', 'U', []])
  })
})
