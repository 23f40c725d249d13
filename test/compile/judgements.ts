// What the oracles said of compiled texts, kept beside the tests with a digest of each text, so that the committed table
// claims an acceptance only for the very text that was judged. Written by `npm run test:interop`.

import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import type { TargetId } from '../../server/compile/target.ts'

const FILE = new URL('./oracle/judgements.json', import.meta.url)

/** From target to digest to null, or why the text was refused. */
type Judgements = Partial<Record<TargetId, Record<string, string | null>>>

const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16)

const stored = (): Judgements => (existsSync(FILE) ? JSON.parse(readFileSync(FILE, 'utf8')) : {})

export function record(target: TargetId, judged: [text: string, refused: string | null][]): void {
  const said = Object.fromEntries(judged.map(([text, refused]) => [digest(text), refused]))
  writeFileSync(FILE, `${JSON.stringify({ ...stored(), [target]: said }, null, 2)}\n`)
}

export function judgementOf(target: TargetId, text: string): 'accepted' | 'refused' | 'not judged' {
  const said = stored()[target]?.[digest(text)]
  return said === undefined ? 'not judged' : said === null ? 'accepted' : 'refused'
}
