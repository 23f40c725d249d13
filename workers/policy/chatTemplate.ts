// Messages to token ids, by the model's own Jinja template. A conversation is rendered once; what comes later is rendered
// as the suffix for the new messages alone and appended, so that token ids only ever grow, whatever the template would
// make of the turns before.

import { Template } from '@huggingface/jinja'
import type { Tokenizer } from './tokenizer.ts'

/** The shape of a chat message that templates read; the environments' messages have it. */
export interface TemplateMessage {
  role: string
  content: string
}

export interface RenderOptions {
  /** Functions that may be called, as in the OpenAI chat format. */
  tools?: readonly object[]
  /** The switch of templates that can let a model think aloud or not; null leaves it to the template. */
  thinking?: boolean | null
}

export interface ChatTemplate {
  /** A whole prompt, ending where the assistant begins to speak. */
  renderPrompt(messages: TemplateMessage[], options?: RenderOptions): number[]
  /**
   * What follows an assistant's turn: the rest of its frame, the new messages, and the next turn's opening.
   * @param closed whether the turn already ended with `turnEnd`
   */
  renderSuffix(messages: TemplateMessage[], closed: boolean, options?: RenderOptions): number[]
  /** A whole conversation as one text of prompt and completion, for supervised training. */
  renderText(messages: TemplateMessage[], options: { open: boolean }): string
  /** The token that the template puts behind an assistant's words; null where it puts none. */
  turnEnd: number | null
  /** It would write earlier turns otherwise once a later one is there: Qwen3 leaves their thinking out. */
  rewritesTurns: boolean
  /** It has a switch for thinking. */
  knowsThinking: boolean
}

const CHATML = `{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// Texts that no template alters and no message holds.
const MARK = 'A7f3Q9x'
const OTHER_MARK = 'B2k8W5z'

/** What templates that ask for the date are told: the tokens of a run must not depend on the day. Llama 3.2's own default. */
const TODAY: Record<string, string> = {
  Y: '2024',
  m: '07',
  d: '26',
  B: 'July',
  b: 'Jul',
  A: 'Friday',
  a: 'Fri',
  H: '00',
  M: '00',
  S: '00',
}

export function createChatTemplate(
  source: string | null,
  tokenizer: Tokenizer,
  tokens: { bos?: string; eos?: string },
): ChatTemplate {
  // The engine's own clock cannot be replaced, so templates are led to another name.
  const template = new Template((source ?? CHATML).replace(/\bstrftime_now\b/g, 'strftime_fixed'))
  const knowsThinking = /\benable_thinking\b/.test(source ?? '')
  const render = (messages: TemplateMessage[], open: boolean, { tools = [], thinking = null }: RenderOptions = {}) => {
    try {
      return template.render({
        messages,
        add_generation_prompt: open,
        bos_token: tokens.bos ?? '',
        eos_token: tokens.eos ?? '',
        strftime_fixed: dateText,
        date_string: dateText('%d %b %Y'),
        ...(tools.length > 0 ? { tools } : {}),
        ...(thinking === null ? {} : { enable_thinking: thinking }),
      })
    } catch (error) {
      const roles = messages.map(({ role }) => role).join(', ')
      throw new Error(
        `Rendered no prompt: the model's chat template fails on messages of ${roles} (${(error as Error).message}).`,
      )
    }
  }
  const asked = { role: 'user', content: MARK }
  const said = { role: 'assistant', content: MARK }
  const afterMark = (text: string) => text.slice(text.lastIndexOf(MARK) + MARK.length)
  const turnEnd = findTurnEnd()
  const carried = new Map<string, boolean>()

  function findTurnEnd(): number | null {
    const ids = tokenizer.encode(afterMark(render([asked, said], false)))
    return ids.find((id) => tokenizer.decode([id]) === '') ?? null
  }

  // The rendering of a turn must stay the beginning of what a later turn renders to.
  function rewrites(): boolean {
    const thought = { role: 'assistant', content: `<think>\n${OTHER_MARK}\n</think>\n\n${MARK}` }
    const before = render([asked, thought], false)
    return !render([asked, thought, { role: 'user', content: OTHER_MARK }], false).startsWith(before)
  }

  function checkCarried(role: string): void {
    if (!carried.has(role))
      carried.set(role, afterMark(render([asked, said, { role, content: OTHER_MARK }], true)).includes(OTHER_MARK))
    if (!carried.get(role))
      throw new Error(`Rendered no turn: the model's chat template leaves out messages of the role ${role}.`)
  }

  return {
    turnEnd,
    rewritesTurns: rewrites(),
    knowsThinking,
    renderPrompt(messages, options = {}) {
      const { tools = [] } = options
      if (tools.length === 0) return tokenizer.encode(render(messages, true, options))
      // Environments read calls between <tool_call> tags; a template that asks for another form, or for none, is passed
      // over and the functions are described in the system message.
      const text = render(messages, true, options)
      return tokenizer.encode(
        text.includes('<tool_call>') && tools.every((tool) => text.includes(nameOf(tool)))
          ? text
          : render(withTools(messages, tools), true, { ...options, tools: [] }),
      )
    },
    renderSuffix(messages, closed, options) {
      for (const { role } of messages) checkCarried(role)
      const ids = tokenizer.encode(afterMark(render([asked, said, ...messages], true, { ...options, tools: [] })))
      const end = closed && turnEnd !== null ? ids.indexOf(turnEnd) : -1
      return ids.slice(end + 1)
    },
    renderText: (messages, { open }) => render(messages, open),
  }
}

function nameOf(tool: object): string {
  return (tool as { function?: { name?: string } }).function?.name ?? ''
}

/** The words of Qwen's own template, in front of which the system message keeps its own. */
function withTools(messages: TemplateMessage[], tools: readonly object[]): TemplateMessage[] {
  const text = [
    '# Tools',
    '',
    'You may call one or more functions to assist with the user query.',
    '',
    'You are provided with function signatures within <tools></tools> XML tags:',
    '<tools>',
    ...tools.map((tool) => JSON.stringify(tool)),
    '</tools>',
    '',
    'For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:',
    '<tool_call>',
    '{"name": <function-name>, "arguments": <args-json-object>}',
    '</tool_call>',
  ].join('\n')
  const [first, ...rest] = messages
  if (first?.role === 'system') return [{ ...first, content: `${first.content}\n\n${text}` }, ...rest]
  return [{ role: 'system', content: text }, ...messages]
}

/** Python's strftime of the fixed date, for what templates ask. */
function dateText(format: string): string {
  return format.replace(/%([A-Za-z])/g, (_, letter: string) => TODAY[letter] ?? '')
}
