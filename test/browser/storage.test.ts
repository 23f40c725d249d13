import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventsOfStep, saveOf } from '../storage/examples.ts'
import { openRealm, type Realm } from './harness.ts'

const MODULE = 'test/browser/storage.page.ts'

let realm: Realm
beforeAll(async () => {
  realm = await openRealm('worker')
})
afterAll(() => realm.close())

function ask<Result>(name: string, ...args: unknown[]): Promise<Result> {
  return realm.call<Result>(MODULE, name, args)
}

interface There {
  files: { bytes: number; checkpoints: number[]; savedStep: number | null }
  seqs: number[]
  samples: unknown[]
  runs: string[]
  isWritten: boolean
}

interface Newest {
  step: number | null
  trainable: number[] | null
  notes: string[]
}

describe('runs in a browser', () => {
  it('give back the events, the samples and the newest save', async () => {
    await ask('work', 'first', 1, 3)
    const there = await ask<There>('whatIsThere', 'first')
    expect(there.seqs).toEqual([12, 13, 22, 23, 32, 33])
    expect(there.samples[1]).toEqual(eventsOfStep('first', 2)[1])
    expect(there.runs).toContain('first')
    expect(there.files.savedStep).toBe(3)
    expect(there.files.bytes).toBeGreaterThan(1000)
    expect(await ask<Newest>('newest', 'first')).toEqual({
      step: 3,
      trainable: [...saveOf('first', 3).arrays.trainable],
      notes: [],
    })
  })

  it('keep as many checkpoints as asked for, each with its adapter', async () => {
    await ask('work', 'kept', 1, 4, 2)
    expect((await ask<There>('whatIsThere', 'kept')).files.checkpoints).toEqual([3, 4])
    expect(await ask('checkpoint', 'kept', 3)).toEqual(['adapter_config.json', 'save.bin'])
    expect(await ask('checkpoint', 'kept', 2)).toEqual([])
  })

  it('tell what each save takes, and let a kept one go', async () => {
    await ask('work', 'weighed', 1, 3, 3)
    const saves = await ask<{ step: number | null; bytes: number }[]>('saves', 'weighed')
    expect(saves.map(({ step }) => step)).toEqual([null, 1, 2, 3])
    expect(saves.every(({ bytes }) => bytes > 100)).toBe(true)
    await ask('removeCheckpoint', 'weighed', 2)
    expect((await ask<There>('whatIsThere', 'weighed')).files).toMatchObject({ checkpoints: [1, 3], savedStep: 3 })
    expect((await ask<Newest>('newest', 'weighed')).step).toBe(3)
  })

  it('take back a save that was downloaded', async () => {
    await ask('work', 'taken', 1, 2)
    await ask('close', 'taken')
    expect(await ask('takeSave', 'taken', 4)).toBeNull()
    expect((await ask<Newest>('newest', 'taken')).step).toBe(4)
    await ask('close', 'taken')
    expect(await ask('takeSave', 'taken', 3)).toMatch(/saved up to step 4 here, and the file is of step 3/)
    // Of a run that is not here any more, too.
    expect(await ask('takeSave', 'lost', 5)).toBeNull()
    expect((await ask<There>('whatIsThere', 'lost')).runs).toContain('lost')
    expect((await ask<Newest>('newest', 'lost')).step).toBe(5)
  })

  it('are cut behind a save when they go on from it', async () => {
    await ask('work', 'cut', 1, 3)
    await ask('cut', 'cut', 23)
    const there = await ask<There>('whatIsThere', 'cut')
    expect(there.seqs).toEqual([12, 13, 22, 23])
    expect(there.samples[2]).toBeNull()
    // Another run of a similar name keeps its own.
    expect((await ask<There>('whatIsThere', 'first')).seqs).toHaveLength(6)
  })

  it('can be removed, and leave nothing', async () => {
    await ask('work', 'gone', 1, 2, 1)
    await ask('close', 'gone')
    await ask('remove', 'gone')
    const there = await ask<There>('whatIsThere', 'gone')
    expect(there).toMatchObject({ seqs: [], files: { bytes: 0, checkpoints: [], savedStep: null } })
    expect(there.runs).not.toContain('gone')
  })
})

describe('a tab killed in the middle of a save', () => {
  it('leaves the save that the pointer shows', async () => {
    // Saves of steps 1, 2, 3 go to slots a, b, a; the next would go to b.
    await ask('work', 'torn', 1, 3)
    await ask('tear', 'torn', 'b', 4)
    expect(await ask<Newest>('newest', 'torn')).toMatchObject({ step: 3, notes: [] })
  })

  it('goes on from the other slot when the newest one is spoiled, and spares it at the next save', async () => {
    await ask('work', 'spoiled', 1, 3)
    await ask('tear', 'spoiled', 'a', 3)
    const newest = await ask<Newest>('newest', 'spoiled')
    expect(newest.step).toBe(2)
    expect(newest.notes.join()).toMatch(/Passed over the save in slot a of run spoiled: The save is torn/)
    // The next save is written over the spoiled slot: torn as well, it leaves step 2.
    await ask('work', 'spoiled', 3, 3)
    await ask('tear', 'spoiled', 'a', 3)
    expect((await ask<Newest>('newest', 'spoiled')).step).toBe(2)
  })

  it('is found by the next one: a page of the same browser', async () => {
    const context = realm.page.context()
    const first = await openRealm('worker', context)
    await first.call(MODULE, 'work', ['crashed', 1, 2])
    await first.page.close()
    const second = await openRealm('worker', context)
    expect((await second.call<Newest>(MODULE, 'newest', ['crashed'])).step).toBe(2)
    await second.close()
  })
})

describe('one writing tab', () => {
  it('is all that a run has; the next one gets it when the first is gone', async () => {
    const context = realm.page.context()
    await ask('open', 'one')
    const other = await openRealm('worker', context)
    await expect(other.call(MODULE, 'open', ['one'])).rejects.toThrow(/Run one is open for writing in another tab/)
    expect((await other.call<There>(MODULE, 'whatIsThere', ['one'])).isWritten).toBe(true)
    await ask('close', 'one')
    await other.call(MODULE, 'open', ['one'])
    await other.page.close()
    // A closed tab lets go by itself; the browser takes a moment to notice.
    await expect
      .poll(() =>
        ask('open', 'one').then(
          () => true,
          () => false,
        ),
      )
      .toBe(true)
  })
})

describe('a full browser', () => {
  it('says so in a sentence and leaves the save before it whole', async () => {
    await ask('work', 'full', 1, 1)
    const session = await realm.page.context().newCDPSession(realm.page)
    const { origin } = new URL(realm.page.url())
    const { usage } = await session.send('Storage.getUsageAndQuota', { origin })
    await session.send('Storage.overrideQuotaForOrigin', { origin, quotaSize: usage + 2_000_000 })
    // 1 M numbers three times over are 12 MB.
    const problem = await ask<string | null>('saveLarge', 'full', 2, 1_000_000)
    await session.send('Storage.overrideQuotaForOrigin', { origin })
    expect(problem).toMatch(/^StorageFull: The browser had no room for the save of step 2 of run full\./)
    expect(problem).toMatch(/What was saved before is whole/)
    expect((await ask<Newest>('newest', 'full')).step).toBe(1)
    expect(await ask('saveLarge', 'full', 2, 1_000_000)).toBeNull()
    expect((await ask<Newest>('newest', 'full')).step).toBe(2)
  })
})
