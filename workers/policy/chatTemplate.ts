// Messages to token ids, by the model's own Jinja template. A conversation is rendered once; what comes later is rendered
// as the suffix for the new messages alone and appended, so that token ids only ever grow.

import { Template } from '@huggingface/jinja'
import type { Tokenizer } from './tokenizer.ts'

/** The shape of a chat message that templates read; the environments' messages have it. */
export interface TemplateMessage {
  role: string
  content: string
}

export interface ChatTemplate {
  /** A whole prompt, ending where the assistant begins to speak. */
  renderPrompt(messages: TemplateMessage[]): number[]
  /**
   * What follows an assistant's turn: the rest of its frame, the new messages, and the next turn's opening.
   * @param closed whether the turn already ended with its stop token
   */
  renderSuffix(messages: TemplateMessage[], closed: boolean): number[]
  /** A whole conversation as one text of prompt and completion, for supervised training. */
  renderText(messages: TemplateMessage[], options: { open: boolean }): string
}

const CHATML = `{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// A text that no template alters and no message holds.
const MARK = 'A7f3Q9x'

export function createChatTemplate(
  source: string | null,
  tokenizer: Tokenizer,
  tokens: { bos?: string; eos?: string },
): ChatTemplate {
  const template = new Template(source ?? CHATML)
  const render = (messages: TemplateMessage[], open: boolean): string =>
    template.render({ messages, add_generation_prompt: open, bos_token: tokens.bos ?? '', eos_token: tokens.eos ?? '' })
  const eos = tokens.eos ?? '<|im_end|>'
  return {
    renderPrompt: (messages) => tokenizer.encode(render(messages, true)),
    renderSuffix(messages, closed) {
      const text = render([{ role: 'user', content: MARK }, { role: 'assistant', content: MARK }, ...messages], true)
      const after = text.slice(text.lastIndexOf(MARK) + MARK.length)
      return tokenizer.encode(closed && after.startsWith(eos) ? after.slice(eos.length) : after)
    },
    renderText: (messages, { open }) => render(messages, open),
  }
}
