import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ROOT } from '../../build/paths.ts'
import { load } from '../../configs/load.ts'
import type { RunConfig } from '../../configs/schema.ts'
import type { RunDescription } from '../../workers/protocol.ts'
import { openRealm, type Realm } from './harness.ts'
import type { told } from './tab.page.ts'

const MODULE = 'test/browser/tab.page.ts'
const SET = [
  'max_steps=4',
  'batch_size=16',
  'rollouts_per_example=4',
  'scheduler.warmup_steps=1',
  'eval.interval="None"',
]

let home: Realm
let config: RunConfig
beforeAll(async () => {
  home = await openRealm('page')
  const text = await readFile(join(ROOT, 'configs/rl/reverse-text-nano.toml'), 'utf8')
  const loaded = load(text, { set: [...SET, 'browser.backend="webgpu"'] })
  if (loaded.problems) throw new Error(loaded.problems.map(({ sentence }) => sentence).join('\n'))
  config = loaded.config
})
afterAll(() => home.close())

type Told = Awaited<ReturnType<typeof told>>

/** A tab of the same browser, with the same storage. */
function tab(): Promise<Realm> {
  return openRealm('page', home.page.context())
}

describe('a run in a tab', () => {
  let whole: Told

  it('trains in its worker, on WebGPU, and gives its adapter away', async () => {
    const page = await tab()
    const description = await page.call<RunDescription>(MODULE, 'start', ['whole', config, false])
    expect(description.device.backend).toBe('webgpu')
    expect(description.device.selfTest.passed).toBe(true)
    expect(await page.call(MODULE, 'playUntil', [2])).toBe('playing')
    expect(await page.call(MODULE, 'adapterFiles')).toEqual([
      expect.stringMatching(/^adapter_model\.safetensors \d+$/),
      expect.stringMatching(/^adapter_config\.json \d+$/),
    ])
    expect(await page.call(MODULE, 'playUntil', [99])).toBe('finished ')
    whole = await page.call<Told>(MODULE, 'told')
    expect(whole.steps).toEqual([1, 2, 3, 4])
    expect(whole.seqs).toEqual(whole.seqs.map((_, i) => i + 1))
    expect(page.errors).toEqual([])
    await page.page.close()
  })

  it('that is killed goes on from its last save in another tab, with the tokens of an unbroken one', async () => {
    const killed = await tab()
    await killed.call(MODULE, 'start', ['killed', config, false])
    await killed.call(MODULE, 'playUntil', [2])
    await killed.page.close({ runBeforeUnload: false })

    const next = await tab()
    const saved = await next.call<number | null>(MODULE, 'savedStep', ['killed'])
    expect(saved).toBeGreaterThanOrEqual(1)
    // The browser notices that the tab is gone a moment later than we do.
    let description: RunDescription | undefined
    await expect
      .poll(
        async () => {
          description = await next
            .call<RunDescription>(MODULE, 'start', ['killed', config, true])
            .catch(() => undefined)
          return description?.attempt
        },
        { timeout: 20_000 },
      )
      .toBe(2)
    expect(description?.step).toBeGreaterThanOrEqual(saved as number)
    expect(await next.call(MODULE, 'playUntil', [99])).toBe('finished ')
    const rest = await next.call<Told>(MODULE, 'told')
    const perStep = whole.tokens.length / 4
    expect(rest.tokens).toEqual(whole.tokens.slice((description?.step ?? 0) * perStep))
    expect(await next.call(MODULE, 'storedSteps', ['killed'])).toEqual([1, 2, 3, 4])
    await next.page.close()
  })

  it('has one writing tab', async () => {
    const first = await tab()
    await first.call(MODULE, 'start', ['one writer', config, false])
    const second = await tab()
    await expect(second.call(MODULE, 'start', ['one writer', config, true])).rejects.toThrow(
      /open for writing in another tab/,
    )
    await first.call(MODULE, 'stop')
    await second.call(MODULE, 'start', ['one writer', config, true])
    await second.call(MODULE, 'stop')
  })
})

describe('a run that cannot begin', () => {
  it('says why: a model that is not there', async () => {
    const page = await tab()
    const wrong = { ...config, model: 'nobody-knows' }
    await expect(page.call(MODULE, 'start', ['none', wrong, false])).rejects.toThrow(
      /of the model nobody-knows: it is not beside this page/,
    )
    await page.page.close()
  })
})
