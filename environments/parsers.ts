// Parsers find the answer in what the policy wrote and say how well it kept the format; what the answer is worth is the
// rubric's affair. They follow verifiers v0, whitespace included: `\s` and strip() mean Python's set, not JavaScript's.

import type { Message } from './messages.ts'

/** Characters for which Python's str.isspace() holds; JavaScript's trim() lacks five of them and adds U+FEFF. */
const SPACES = new Set(
  '\t\n\v\f\r\x1c\x1d\x1e\x1f\x20\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000',
)

/** Python's str.strip(). */
export function strip(text: string): string {
  let start = 0
  let end = text.length
  while (start < end && SPACES.has(text[start])) start++
  while (end > start && SPACES.has(text[end - 1])) end--
  return text.slice(start, end)
}

export type Extract = (text: string) => string

function assistantTexts(completion: readonly Message[]): string[] {
  return completion.filter((message) => message.role === 'assistant').map((message) => message.content)
}

function mean(values: number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length
}

/** What every parser can do. A completion is the messages after the prompt, or a bare text. */
export abstract class AnswerParser {
  /** The answer, or null where there is none. */
  abstract parseAnswer(completion: readonly Message[] | string): string | null
  /** How well the policy's messages keep the format, in [0, 1]. */
  abstract formatReward(completion: readonly Message[]): number
}

/** The policy's last message as it stands. */
export class Parser extends AnswerParser {
  protected readonly extract: Extract

  constructor(extract: Extract = (text) => text) {
    super()
    this.extract = extract
  }

  parse(text: string): string {
    return this.extract(text)
  }

  override parseAnswer(completion: readonly Message[] | string): string | null {
    if (typeof completion === 'string') return this.parse(completion)
    const last = assistantTexts(completion).at(-1)
    return last === undefined ? null : this.parse(last)
  }

  override formatReward(_completion: readonly Message[]): number {
    return 1
  }
}

/** What follows the last `</think>`; nothing where the tag is missing. For models that write the tags themselves. */
export class ThinkParser extends Parser {
  override parse(text: string): string {
    return this.extract(text.includes('</think>') ? strip(text.split('</think>').at(-1)!) : '')
  }

  /** Mean over messages: 1 where one thought opens the message, is closed once, and something follows it. */
  override formatReward(completion: readonly Message[]): number {
    return mean(
      assistantTexts(completion).map((text) => {
        const opened = strip(text).startsWith('<think>') && text.split('<think>').length === 2
        const parts = text.split('</think>')
        return opened && parts.length === 2 && parts[1].length > 0 ? 1 : 0
      }),
    )
  }
}

/** What follows the last `</think>`, or everything where the tag is missing. */
export class MaybeThinkParser extends ThinkParser {
  override parse(text: string): string {
    return this.extract(strip(text.split('</think>').at(-1)!))
  }
}

/** A tag, or alternatives for one place of which the first is canonical. */
export type XMLField = string | readonly [string, ...string[]]

/** Contents of `<tag>…</tag>`: no nesting, no attributes, and no word about the order of tags. */
export class XMLParser extends AnswerParser {
  /** One place each; the first tag of a place is canonical. */
  readonly fields: readonly (readonly string[])[]
  readonly answerField: string
  readonly #tags: readonly string[]

  constructor(fields: readonly XMLField[], { answerField = 'answer' }: { answerField?: string } = {}) {
    super()
    this.fields = fields.map((field) => (typeof field === 'string' ? [field] : [...field]))
    this.answerField = answerField
    if (this.fields.length === 0) throw new Error('XMLParser: at least one field is needed, none was given.')
    this.#tags = this.fields.flat()
    const twice = this.#tags.find((tag, index) => this.#tags.indexOf(tag) !== index)
    if (twice !== undefined) throw new Error(`XMLParser: the tag "${twice}" is given twice; name each tag once.`)
    if (!this.#tags.includes(answerField))
      throw new Error(`XMLParser: answerField "${answerField}" is none of the tags ${this.#tags.join(', ')}.`)
  }

  /** For each tag its first content (with `last`, its last), stripped; null where the tag is not closed or missing. */
  parse(text: string, { last = false }: { last?: boolean } = {}): Record<string, string | null> {
    return Object.fromEntries(
      this.#tags.map((tag) => {
        const contents = contentsOf(text, tag)
        const content = last ? contents.at(-1) : contents[0]
        return [tag, content === undefined ? null : strip(content)]
      }),
    )
  }

  /** From the newest message back, the first that has the answer's tag; in a bare text the last such tag. */
  override parseAnswer(completion: readonly Message[] | string): string | null {
    if (typeof completion === 'string') return this.parse(completion, { last: true })[this.answerField]
    for (const text of assistantTexts(completion).reverse()) {
      const answer = this.parse(text)[this.answerField]
      if (answer !== null) return answer
    }
    return null
  }

  /**
   * Mean over messages of 0.4 · places seen / places, if any tag could be parsed; + 0.2 for spacing; + 0.2 if a tag of
   * the first place opens the message; + 0.2 if one of the last place closes it. A place is seen where one of its tags
   * stands, parsed or not. Spacing never fails in verifiers (both of its parses agree), so an empty message has 0.2.
   */
  override formatReward(completion: readonly Message[]): number {
    return mean(
      assistantTexts(completion).map((text) => {
        const parsed = this.parse(text)
        const any = Object.values(parsed).some((content) => content !== null)
        const stands = (tag: string) => parsed[tag] !== null || text.includes(`<${tag}>`) || text.includes(`</${tag}>`)
        const seen = this.fields.filter((tags) => tags.some(stands)).length
        const body = strip(text)
        const opens = this.fields[0].some((tag) => body.startsWith(`<${tag}>`))
        const closes = this.fields.at(-1)!.some((tag) => body.endsWith(`</${tag}>`))
        return (any ? 0.4 * (seen / this.fields.length) : 0) + 0.2 + (opens ? 0.2 : 0) + (closes ? 0.2 : 0)
      }),
    )
  }

  /** The tags in order, each with the value of its canonical name or of an alternative. */
  format(values: Record<string, string>): string {
    return this.fields
      .map((tags) => {
        const given = tags.find((tag) => tag in values)
        if (given === undefined)
          throw new Error(`XMLParser.format: a value for ${tags.join(' or ')} is needed, got ${Object.keys(values)}.`)
        return `<${tags[0]}>\n${values[given]}\n</${tags[0]}>`
      })
      .join('\n')
  }

  /** What a prompt may show: each place with its tags and an ellipsis. */
  formatDescription(): string {
    return this.fields
      .map((tags) => (tags.length > 1 ? `[ ${tags.join(' | ')} ]` : tags[0]))
      .map((tag) => `<${tag}>\n...\n</${tag}>`)
      .join('\n')
  }
}

/** What stands between each `<tag>` and the next `</tag>`, from left to right, as `<tag>(.*?)</tag>` would find it. */
export function contentsOf(text: string, tag: string): string[] {
  const contents: string[] = []
  let from = 0
  while (true) {
    const open = text.indexOf(`<${tag}>`, from)
    if (open < 0) return contents
    const start = open + tag.length + 2
    const end = text.indexOf(`</${tag}>`, start)
    if (end < 0) return contents
    contents.push(text.slice(start, end))
    from = end + tag.length + 3
  }
}
