// Nothing of a config reaches a shell, a folder or a template unless it has the plain form of what it names; everything
// else stands in quotes in the TOML and comes back letter by letter.

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { PRIME_RL_2026_01 } from '../../configs/dialects/prime-rl-2026-01.ts'
import { PRIME_RL_2026_08 } from '../../configs/dialects/prime-rl-2026-08.ts'
import { difference } from '../../configs/difference.ts'
import { isTable, parsePath, setAt, type Table } from '../../configs/path.ts'
import { knobs, type RunConfig, runConfig } from '../../configs/schema.ts'
import { readSource } from '../../configs/source.ts'
import { tableToToml } from '../../configs/write.ts'
import { compileConfig, TARGETS } from '../../server/compile/compile.ts'
import type { TargetId } from '../../server/compile/target.ts'

const HOSTILE = [
  '$(touch /tmp/x)',
  '`id`',
  '; rm -rf /',
  '&& curl evil',
  '| sh',
  '../../etc/passwd',
  '/etc/passwd\0',
  '~/.ssh/id_rsa',
  '{{ 7 * 7 }}',
  "{% import os %}{{ os.system('id') }}",
  `\${HOME}`,
  '"\n[slurm]\npre_run_command = "id"',
  "'''",
  '"""',
  'a\r\nb',
  '-rf',
  '--config=/etc/passwd',
  'a b',
  '\u202etxt.exe',
]

const hostile = fc.oneof(fc.constantFrom(...HOSTILE), fc.string({ unit: 'binary', minLength: 1 }))

/** Every place of a RunConfig where a text may stand. */
const TEXTS = [
  ...knobs()
    .filter(({ type, choices }) => type === 'string' && !choices)
    .map(({ path }) => path),
  ...['sampling.stop[0]', 'env_files[0]', 'lora.target_modules[0]', 'lora.modules_to_save[0]', 'wandb.tags[0]'],
  ...[
    'env[].args.text',
    'env[].args.deep.list[0]',
    'env[].harness.id',
    'env[].remote.serve.address',
    'sampling.extra_body.text',
  ],
  ...keptPaths('remote.prime_rl', PRIME_RL_2026_08),
  ...keptPaths('remote.prime_rl', PRIME_RL_2026_01),
  ...['cluster_name', 'checkpoint_id', 'run_config.text'].map((key) => `remote.hosted.${key}`),
]

/** Places that a program reads as more than data, and the letters that mean something to a shell or a template there. */
const MORE_THAN_DATA =
  /^slurm\.|(^|\.)output_dir$|^run\.|(^|\.)model\.name$|^model$|^name$|\.id$|(?<!wandb|prime)\.name$|import_path$|chat_template$|\.file\.path$|env_vars\.|trace_path$|^resume\.dir$|\.log\.file$|tokenizer\.name$/

const MEANS_SOMETHING = /[$`;&|<>(){}'"\\\s\0~*?!#]|(^|\/)\.\.(\/|$)|^-/

function keptPaths(home: string, list: string): string[] {
  const below = (key: string) => (key.endsWith('*') ? `${key.slice(0, -1)}.TEXT` : key)
  return list
    .trim()
    .split('\n')
    .filter((line) => line !== '' && !line.includes('[]'))
    .flatMap((line) => {
      const [table, keys] = line.split(': ')
      const prefix = table === '(root)' ? home : `${home}.${table}`
      return keys === undefined ? [below(prefix)] : keys.split(' ').map((key) => `${prefix}.${below(key)}`)
    })
}

function withText(path: string, text: string): RunConfig {
  const config = runConfig.parse({
    model: 'Qwen/Qwen3-0.6B',
    env: [{ id: 'primeintellect/reverse-text' }],
    eval: { interval: 5, env: [{ id: 'owner/other' }] },
    max_steps: 20,
  })
  setAt(config as Table, parsePath(path.replaceAll('[]', '[0]')) ?? [], text)
  return config
}

function texts(value: unknown, path = ''): [path: string, text: string][] {
  if (typeof value === 'string') return [[path, value]]
  if (Array.isArray(value)) return value.flatMap((entry, i) => texts(entry, `${path}[${i}]`))
  if (!isTable(value)) return []
  return Object.entries(value).flatMap(([key, entry]) => texts(entry, path ? `${path}.${key}` : key))
}

describe.each(Object.keys(TARGETS) as TargetId[])('compiled for %s', (target) => {
  test(`a text in any of ${TEXTS.length} places is refused, or is data that comes back letter by letter`, () => {
    fc.assert(
      fc.property(fc.constantFrom(...TEXTS), hostile, (path, text) => {
        const { table, findings } = compileConfig(withText(path, text), target)
        if (findings.some(({ act }) => act === 'refuse')) return
        const back = readSource(tableToToml(table), 'toml').value
        // null is written as "None"; nothing else may change between the table and the file.
        const changed = difference(table, back).filter((delta) => 'gone' in delta || delta.value !== 'None')
        expect(changed).toEqual([])
        for (const [where, value] of texts(back)) {
          if (value === text && MORE_THAN_DATA.test(where))
            expect(`${where} ${MEANS_SOMETHING.test(value)}`).toBe(`${where} false`)
        }
      }),
      { numRuns: 3000 },
    )
  })

  test('each hostile text is refused where a job, a folder or a package is named', () => {
    for (const text of HOSTILE) {
      for (const path of ['model', 'env[].id', 'env[].name', 'name']) {
        if (target === 'prime-rl-2026-01' && path === 'name') continue
        const { findings } = compileConfig(withText(path, text), target)
        expect(
          findings.filter(({ act }) => act === 'refuse').map(({ knob }) => knob),
          `${path} = ${text}`,
        ).toContain(path.replace('[]', '[0]'))
      }
    }
  })
})

test('a command and a template of a job script are never taken from a config', () => {
  for (const key of ['pre_run_command', 'template_path']) {
    const { findings } = compileConfig(withText(`remote.prime_rl.slurm.${key}`, 'harmless'), 'prime-rl')
    expect(findings.filter(({ act }) => act === 'refuse').map(({ sentence }) => sentence)).toEqual([
      expect.stringContaining('runs as shell on the cluster'),
    ])
  }
})

test('variables that load programs are refused, others go along', () => {
  const acts = (name: string) =>
    compileConfig(withText(`remote.prime_rl.env_vars.${name}`, 'value'), 'prime-rl').findings.filter(
      ({ act }) => act === 'refuse',
    ).length
  expect([acts('LD_PRELOAD'), acts('PYTHONPATH'), acts('NCCL_DEBUG')]).toEqual([1, 1, 0])
})
