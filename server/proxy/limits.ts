// What a request may ask of a node. A field that is refused or above its cap is named in the refusal; it is never
// silently changed. Fields that are not listed here go to the node as they came.

import type { Body } from './body.ts'
import type { ProxyConfig } from './config.ts'
import { Refusal } from './refusal.ts'

type Limits = ProxyConfig['limits']

/** Throws a Refusal that names the first field at fault. */
export function checkLimits({ value }: Body, limits: Limits) {
  for (const field of limits.refused_fields)
    if (Object.hasOwn(value, field)) throw refused(field, `The field ${field} is not taken: leave it out.`)
  if (Object.hasOwn(asObject(value.chat_template_kwargs), 'chat_template'))
    throw refused('chat_template_kwargs.chat_template', 'A chat template is not taken: leave it out.')

  for (const field of ['n', 'best_of']) capped(value, field, 1, limits.n)
  for (const field of ['max_tokens', 'max_completion_tokens']) capped(value, field, 0, limits.max_tokens)
  capped(value, 'min_tokens', 0, limits.max_tokens)
  for (const field of ['top_logprobs', 'prompt_logprobs']) capped(value, field, 0, limits.logprobs)
  if (typeof value.logprobs !== 'boolean') capped(value, 'logprobs', 0, limits.logprobs)
  for (const field of ['tools', 'functions']) listed(value, field, limits.tools)

  const answers = Math.max(Number(value.n ?? 1), Number(value.best_of ?? 1))
  for (const field of ['prompt', 'input']) {
    const texts = value[field]
    // A list of numbers is one prompt, as token ids.
    const count = Array.isArray(texts) && typeof texts[0] !== 'number' ? texts.length : 1
    if (count * answers > limits.prompts)
      throw refused(field, `${field} asks for ${count * answers} answers, and ${limits.prompts} is the limit.`)
  }
  for (const field of ['messages', 'input', 'prompt']) checkMedia(value[field], field, limits.media_hosts)
}

function capped(value: Record<string, unknown>, field: string, least: number, most: number) {
  const given = value[field]
  if (given === undefined || given === null) return
  // A node may read "100000" or 1e5 as a number too, so only a whole number is let through.
  if (typeof given !== 'number' || !Number.isInteger(given)) throw refused(field, `${field} has to be a whole number.`)
  if (given < least || given > most) throw refused(field, `${field} is ${given}, and may be ${least} to ${most}.`)
}

function listed(value: Record<string, unknown>, field: string, most: number) {
  const given = value[field]
  if (Array.isArray(given) && given.length > most)
    throw refused(field, `${field} has ${given.length} entries, and ${most} is the limit.`)
}

const MEDIA = /(^|_)(url|image|audio|video|file)$/
const EMBEDDED = /_embeds$/

/** A node fetches what a prompt links to, from inside our network: links are refused unless their host is listed. */
function checkMedia(value: unknown, path: string, hosts: readonly string[]) {
  if (!Array.isArray(value)) return
  value.forEach((entry, index) => {
    if (typeof entry !== 'object' || entry === null) return
    const { content } = entry as { content?: unknown }
    if (Array.isArray(content)) checkParts(content, `${path}[${index}].content`, hosts)
    else if ('type' in entry) checkParts([entry], path, hosts)
  })
}

function checkParts(parts: readonly unknown[], path: string, hosts: readonly string[]) {
  parts.forEach((part, index) => {
    const at = `${path}[${index}]`
    for (const [key, value] of Object.entries(asObject(part))) {
      if (EMBEDDED.test(key)) throw refused(`${at}.${key}`, `Embeddings in a prompt are not taken: leave ${key} out.`)
      if (MEDIA.test(key)) checkLink(value, `${at}.${key}`, hosts)
      else if (Array.isArray(value)) checkParts(value, `${at}.${key}`, hosts)
    }
  })
}

function checkLink(value: unknown, path: string, hosts: readonly string[]) {
  if (typeof value === 'string') {
    if (value.startsWith('data:') || isListed(value, hosts)) return
    throw refused(path, `${path} is a link, which is not followed here: send the file itself as a data: URL.`)
  }
  for (const [key, inner] of Object.entries(asObject(value)))
    if (MEDIA.test(key)) checkLink(inner, `${path}.${key}`, hosts)
}

function isListed(link: string, hosts: readonly string[]): boolean {
  if (!/^https?:\/\//.test(link) || !URL.canParse(link)) return false
  const url = new URL(link)
  return hosts.includes(url.hostname) && !url.username && !url.password && url.port === ''
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {}
}

function refused(param: string, sentence: string) {
  return new Refusal(400, 'refused_field', sentence, { param })
}
