// What reverse-text asks and what its right answer is: the knobs that the environment and its demonstrations share.

import { z } from 'zod'
import { onSideOf } from '../datasets.ts'
import type { Message, Split } from '../messages.ts'
import type { RandomStream } from '../random.ts'
import { pseudoText } from './texts.ts'

export const taskKnobs = z.strictObject({
  min_length: z
    .int()
    .min(2)
    .max(2000)
    .default(8)
    .meta({ title: 'Shortest text', description: 'Fewest characters of a text to be reversed.', unit: 'characters' }),
  max_length: z
    .int()
    .min(2)
    .max(2000)
    .default(20)
    .meta({ title: 'Longest text', description: 'Most characters of a text to be reversed.', unit: 'characters' }),
  tag: z
    .string()
    .regex(/^[A-Za-z_][\w.-]*$/, 'a tag name is needed, such as reversed_text')
    .default('reversed_text')
    .meta({ title: 'Tag', description: 'The answer stands between <tag> and </tag>.' }),
  system_prompt: z.string().nullable().optional().meta({
    title: 'System prompt',
    description: 'Left out: names the task and the tag, as verifiers does. null: no system message.',
  }),
})

/** For `refine`: a window with its ends in order, and what is said of another. */
export function inOrder({ min_length, max_length }: { min_length: number; max_length: number }): boolean {
  return min_length <= max_length
}

export const outOfOrder = { path: ['min_length'], error: 'min_length must not exceed max_length' }

export function systemPrompt({ system_prompt, tag }: { system_prompt?: string | null; tag: string }): string | null {
  if (system_prompt !== undefined) return system_prompt
  return `Reverse the text character-by-character. Put your answer in <${tag}> tags.`
}

/** By code points, as Python's text[::-1]. */
export function reversed(text: string): string {
  return Array.from(text).reverse().join('')
}

export function wrapped(content: string, tag: string): string {
  return `<${tag}>${content}</${tag}>`
}

/** A text of one side: what is held out for evaluation is held out from training and demonstrations of any length. */
export function textOf(split: Split, random: RandomStream, low: number, high: number): string {
  return onSideOf(split, () => pseudoText(random, low, high))
}

export function promptOf(text: string, system: string | null): Message[] {
  const user: Message = { role: 'user', content: text }
  return system === null ? [user] : [{ role: 'system', content: system }, user]
}
