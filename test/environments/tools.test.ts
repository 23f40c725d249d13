import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Message } from '../../environments/messages.ts'
import { play } from '../../environments/play.ts'
import type { State } from '../../environments/state.ts'
import { parseToolCalls, tool } from '../../environments/tools.ts'
import { Calculator, Safe, says } from './games.ts'

const call = (name: string, args: unknown) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`
const results = (messages: Message[]) => messages.filter(({ role }) => role === 'tool').map(({ content }) => content)

/** Says each line in turn. */
function script(...lines: (string | Message)[]) {
  return (state: State): Message => {
    const line = lines[state.turn]
    return typeof line === 'string' ? says(line) : line
  }
}

const start = (calculator = new Calculator()) => calculator.draw(0, 'train', 0)

describe('an environment with tools', () => {
  test('runs the calls of a message in order, and ends with a message that calls none', async () => {
    const calculator = new Calculator()
    const lines = [
      `Let me see. ${call('add', { a: 2, b: 3 })}${call('add', { a: 1, b: 1 })}`,
      call('multiply', { a: 5, b: 2 }),
      '10',
    ]
    const state = await play(calculator, start(), script(...lines))
    expect(state.stop).toBe('no_tools_called')
    expect(state.completion.map(({ role }) => role)).toEqual([
      'assistant',
      'tool',
      'tool',
      'assistant',
      'tool',
      'assistant',
    ])
    expect(results(state.completion)).toEqual(['5', '2', '{"product":10}'])
    expect(state.completion[1]).toEqual({ role: 'tool', content: '5', tool_call_id: 'call_0_0', name: 'add' })
    expect(await calculator.score([state])).toEqual([
      {
        reward: 1,
        metrics: { right: 1, total_tool_calls: 3, add_calls: 2, multiply_calls: 1, fail_calls: 0, num_turns: 3 },
        error: null,
      },
    ])
  })

  test('takes calls that arrive already parsed', async () => {
    const parsed: Message = {
      role: 'assistant',
      content: '',
      tool_calls: [{ id: 'x1', name: 'add', arguments: '{"a":1,"b":2}' }],
    }
    const state = await play(new Calculator(), start(), script(parsed, 'done'))
    expect(state.completion[1]).toEqual({ role: 'tool', content: '3', tool_call_id: 'x1', name: 'add' })
  })

  test('answers what it cannot read, does not know, does not fit or fails with text, and goes on', async () => {
    const lines = [
      '<tool_call>add 2 and 3</tool_call>',
      call('ad', { a: 1, b: 2 }),
      call('add', { a: 'one', c: 2 }),
      call('fail', {}),
      { ...says(''), tool_calls: [{ id: 'y', name: 'add', arguments: '{a:1}' }] },
      '10',
    ]
    const calculator = new Calculator()
    const state = await play(calculator, start(), script(...lines))
    const [unread, unknown, unfit, failed, broken] = results(state.completion)
    expect(unread).toBe('There is no tool "". Tools: add, multiply, fail.')
    expect(unknown).toBe('There is no tool "ad". Did you mean "add"? Tools: add, multiply, fail.')
    expect(unfit).toMatch(/^The arguments of "add" do not fit: a: .*expected number.*b: .*expected number.*"c"/)
    expect(failed).toBe('Not today.')
    expect(broken).toMatch(/^The arguments of "add" are not JSON: /)
    expect((await calculator.score([state]))[0]).toMatchObject({ reward: 1, error: null })
  })

  test('says errors in its own words, and makes those that it names the end of the rollout', async () => {
    const calculator = new Calculator({
      formatError: (error) => `Oh: ${error.message}`,
      stopOn: (error) => error instanceof RangeError,
    })
    const state = await play(calculator, start(), script(call('fail', {}), call('fail', { loudly: true })))
    expect(results(state.completion)).toEqual(['Oh: Not today.'])
    expect(state).toMatchObject({ stop: 'has_error', error: 'calculator failed to answer turn 2: It broke.' })
  })

  test('ends after ten turns unless told otherwise', async () => {
    expect((await play(new Calculator(), start(), () => says(call('add', { a: 1, b: 1 })))).turn).toBe(10)
    expect((await play(new Calculator({ maxTurns: 2 }), start(), () => says(call('add', { a: 1, b: 1 })))).turn).toBe(2)
  })

  test('shows its tools as JSON Schema', async () => {
    const calculator = new Calculator()
    const [add] = calculator.tools(await calculator.begin(start(), 0))
    expect(add).toEqual({
      type: 'function',
      function: {
        name: 'add',
        description: 'a + b',
        parameters: {
          type: 'object',
          properties: { a: { type: 'number' }, b: { type: 'number' } },
          required: ['a', 'b'],
          additionalProperties: false,
        },
      },
    })
  })
})

describe('an environment with tools on state', () => {
  test('puts in what the policy neither sees nor sets', async () => {
    const safe = new Safe()
    const state = await safe.begin(safe.draw(0, 'train', 0), 0)
    expect(safe.tools(state)[0].function.parameters).toMatchObject({
      properties: { thing: { type: 'string' } },
      required: ['thing'],
    })
    expect(JSON.stringify(safe.tools(state))).not.toContain('"drawer"')
    const done = await play(
      safe,
      safe.draw(0, 'train', 0),
      script(call('put', { thing: 'ring', drawer: ['stolen'] }), 'done'),
    )
    expect(done.data).toEqual({ mine: 'ada', drawers: { ada: ['ring'], bob: ['ring'] } })
    expect(results(done.completion)).toEqual(['1 in the drawer'])
    expect((await safe.score([done]))[0].reward).toBe(1)
  })

  test('is refused as one without state when its tools hide parameters', () => {
    const parameters = z.object({ x: z.string() })
    const peek = tool({ name: 'peek', description: 'Looks.', parameters, hidden: ['x'], call: ({ x }) => x })
    expect(() => new Calculator({ tools: [peek] })).toThrow(
      '"peek" hides parameters, which needs a StatefulToolEnvironment',
    )
  })
})

describe('calls in text', () => {
  test('are read in the order they stand, numbered within their turn', () => {
    const text = `a <tool_call>{"name": "f", "arguments": {"x": "</b>"}}</tool_call> b <tool_call> {"name":"g"} </tool_call>`
    expect(parseToolCalls(text, 3)).toEqual([
      { id: 'call_3_0', name: 'f', arguments: '{"x":"</b>"}' },
      { id: 'call_3_1', name: 'g', arguments: '{}' },
    ])
    expect(parseToolCalls('<tool_call>{"name": "f"', 0)).toEqual([])
    expect(parseToolCalls('<tool_call>[1]</tool_call>', 0)).toEqual([{ id: 'call_0_0', name: '', arguments: '[1]' }])
  })
})
