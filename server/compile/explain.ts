// A target's table for people: every knob that a config says or that the table speaks of, where it goes, and how.

import { load } from '../../configs/load.ts'
import { compileConfig, tableFor } from './compile.ts'
import { isDefault, shown, type TargetId, valueIn } from './target.ts'

/** Lines of `knob = value → their path: how`, knobs at their default marked; the text loads without problems. */
export function explain(text: string, id: TargetId, set: readonly string[] = []): string {
  const loaded = load(text, { set })
  if (loaded.problems) throw new Error('explain is asked about a config that does not load')
  const { config } = loaded
  const target = tableFor(config, id)
  const lines = target.rows.flatMap(({ knob, to, how }) => {
    if (knob.includes('[]') || how.startsWith('with ')) return []
    const value = valueIn(config, knob)
    const said = isDefault(config, knob) ? 'the default' : shown(value)
    return [`${knob} (${said}) → ${to ?? 'nothing'}: ${how}`]
  })
  const { findings } = compileConfig(config, id)
  const told = findings.filter(({ sentence }) => sentence !== '').map(({ act, sentence }) => `[${act}] ${sentence}`)
  return [`${target.title} (${target.pin})`, '', ...lines, '', ...told, ''].join('\n')
}
