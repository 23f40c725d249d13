// Models of a hub in Node: over real sockets, into a folder in the layout of huggingface_hub's cache.

import { mkdtemp, readdir, readFile, readlink, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { ROOT } from '../../build/paths.ts'
import { train } from '../../cli/train.ts'
import { load } from '../../configs/load.ts'
import { openLearner } from '../../workers/host/learner.ts'
import { createRealm } from '../../workers/host/realm.node.ts'
import { HubClient } from '../../workers/hub/client.ts'
import { readDirectly } from '../../workers/hub/direct.ts'
import { readModelName } from '../../workers/hub/name.ts'
import { type HubProgress, type OpenHubOptions, openHubModel } from '../../workers/hub/open.ts'
import { shardsOf } from '../../workers/hub/place.ts'
import { hubCacheFolder, hubToken, NodeModelStore } from '../../workers/hub/store.node.ts'
import { type Model, openModel } from '../../workers/policy/load.ts'
import { randomModel } from '../policy/randomModel.ts'
import { hosted, SHARDED, WHOLE } from './hosted.ts'
import { type HubServer, sha256, startHub } from './hubServer.ts'

let hub: HubServer
let folder: string
let store: NodeModelStore
beforeEach(async () => {
  hub = await startHub(await hosted())
  folder = await mkdtemp(join(tmpdir(), 'hub-'))
  store = new NodeModelStore(folder)
})
afterEach(async () => {
  await hub.close()
  await rm(folder, { recursive: true })
})

const QUICK = { tries: 3, pauseMs: () => 1 }

async function open(name: string, options: OpenHubOptions & { token?: string } = {}): Promise<Model> {
  const client = new HubClient({ base: hub.base, token: options.token })
  return openModel(await openHubModel(name, client, store, { ...QUICK, ...options }), name)
}

async function expectWhole(model: Model): Promise<void> {
  const expected = await randomModel()
  for (const name of ['model.embed_tokens.weight', 'model.layers.1.mlp.down_proj.weight', 'model.norm.weight'])
    expect(await model.weight(name)).toEqual(await expected.weight(name))
}

/** Requests for bytes of weights. */
function weightRequests(): string[] {
  return hub.asked
    .filter(({ method, path, server }) => method === 'GET' && server === 'cdn' && path.endsWith('.safetensors'))
    .map(({ path, range }) => `${path.split('/').at(-1)} ${range ?? 'whole'}`)
}

describe('a model of a hub', () => {
  it.each([WHOLE, SHARDED])('is fetched once, kept, and opened without a network from then on (%s)', async (name) => {
    const model = await open(name)
    await expectWhole(model)
    const asked = hub.asked.length
    await expectWhole(await open(name))
    expect(hub.asked).toHaveLength(asked)
    // The same weights have the same hash wherever they lie; two files are not one.
    if (name === WHOLE) expect(model.hash).toBe((await randomModel()).hash)
    await hub.close()
    const again = await open(name)
    expect(again.hash).toBe(model.hash)
    await expectWhole(again)
  })

  it("lies on the disk as huggingface_hub's cache has it", async () => {
    await open(SHARDED)
    const place = join(folder, 'models--someone--sharded')
    const commit = await readFile(join(place, 'refs', 'main'), 'utf8')
    expect(commit).toMatch(/^[0-9a-f]{40}$/)
    const link = await readlink(join(place, 'snapshots', commit, 'model-00001-of-00002.safetensors'))
    expect(link).toBe(join('..', '..', 'blobs', sha256(hub.models[SHARDED].files['model-00001-of-00002.safetensors'])))
    expect(await readdir(join(place, '.no_exist', commit))).toEqual(['chat_template.jinja', 'generation_config.json'])
    expect((await readdir(join(place, 'blobs'))).filter((name) => name.endsWith('.incomplete'))).toEqual([])
    const [kept] = await store.list()
    expect(kept).toMatchObject({ id: 'models--someone--sharded', complete: true, manifest: { model: SHARDED } })
    expect(kept.bytes).toBe(Object.values(hub.models[SHARDED].files).reduce((sum, bytes) => sum + bytes.length, 0))
    await store.remove(kept.id)
    expect(await store.list()).toEqual([])
  })

  it('tells how far its weights are', async () => {
    const told: HubProgress[] = []
    await open(SHARDED, { onProgress: (progress) => told.push(progress) })
    const weights = told.filter(({ file }) => file.endsWith('.safetensors'))
    const total = Object.entries(hub.models[SHARDED].files)
      .filter(([path]) => path.endsWith('.safetensors'))
      .reduce((sum, [, bytes]) => sum + bytes.length, 0)
    expect(weights.at(-1)).toEqual({ file: 'model-00002-of-00002.safetensors', doneBytes: total, totalBytes: total })
    expect(weights.map(({ doneBytes }) => doneBytes)).toEqual(
      weights.map(({ doneBytes }) => doneBytes).sort((a, b) => a - b),
    )
  })

  it('costs no weights when it cannot run', async () => {
    hub.models[WHOLE].files['config.json'] = new TextEncoder().encode('{"model_type":"mamba"}')
    await expect(open(WHOLE)).rejects.toThrow(/model_type is "mamba"/)
    expect(weightRequests()).toEqual([])
  })

  it('comes from a plain mirror too, that has no list of files', async () => {
    Object.assign(hub.faults, { noList: true })
    await expectWhole(await open(WHOLE))
    await expectWhole(await open(SHARDED))
    Object.assign(hub.faults, { noDigests: true })
    for (const { id } of await store.list()) await store.remove(id)
    const model = await open(WHOLE)
    await expectWhole(model)
    // Without a digest from the mirror the file's own is taken.
    expect(model.hash).toBe((await randomModel()).hash)
  })

  it('is read over the network where there is no place for it, and only what is asked for', async () => {
    const client = new HubClient({ base: hub.base })
    const model = await openModel(await readDirectly(SHARDED, client, QUICK), SHARDED)
    await expectWhole(model)
    expect(weightRequests().every((line) => /bytes=\d+-\d+/.test(line) || line.endsWith('whole'))).toBe(true)
    Object.assign(hub.faults, { cut: { path: 'model-00001-of-00002.safetensors', after: 10, times: 1 } })
    await expectWhole(await openModel(await readDirectly(SHARDED, client, QUICK), SHARDED))
  })
})

describe('a connection that breaks', () => {
  const cut = (times: number) => Object.assign(hub.faults, { cut: { path: 'model.safetensors', after: 20_000, times } })

  it('is taken up where it broke off', async () => {
    cut(2)
    await expectWhole(await open(WHOLE))
    expect(weightRequests()).toEqual([
      'model.safetensors whole',
      'model.safetensors bytes=20000-',
      'model.safetensors bytes=40000-',
    ])
  })

  it('that breaks for good leaves what came to the next start', async () => {
    cut(1)
    const controller = new AbortController()
    const onProgress = ({ file, doneBytes }: HubProgress) => {
      if (file === 'model.safetensors' && doneBytes >= 20_000) controller.abort(new Error('the tab was closed'))
    }
    await expect(open(WHOLE, { signal: controller.signal, onProgress })).rejects.toThrow('the tab was closed')
    expect((await store.list())[0]).toMatchObject({ complete: false })
    hub.asked.length = 0
    await expectWhole(await open(WHOLE))
    expect(weightRequests()).toEqual(['model.safetensors bytes=20000-'])
  })

  it('is a sentence when nothing comes any more', async () => {
    Object.assign(hub.faults, { status: { path: 'model.safetensors', status: 503, times: 99 } })
    await expect(open(WHOLE)).rejects.toThrow(
      /Fetched model\.safetensors of someone\/whole from http.*answered 503, 3 times in a row\. Check the connection/,
    )
    await hub.close()
    await expect(open(SHARDED)).rejects.toThrow(/Asked http.* for someone\/sharded: no answer came from 127\.0\.0\.1/)
  })

  it('with a server that knows no ranges begins anew', async () => {
    Object.assign(hub.faults, { noRanges: true })
    cut(1)
    await expectWhole(await open(WHOLE))
    expect(weightRequests()).toEqual(['model.safetensors whole', 'model.safetensors bytes=20000-'])
  })

  it('is one fetch for two who ask at once', async () => {
    const [one, other] = await Promise.all([open(WHOLE), open(WHOLE)])
    await expectWhole(one)
    expect(other.hash).toBe(one.hash)
    expect(weightRequests()).toEqual(['model.safetensors whole'])
  })
})

describe('wrong bytes', () => {
  it('are noticed by their digest, thrown away, and fetched anew', async () => {
    hub.faults.spoil = 'model.safetensors'
    await expect(open(WHOLE)).rejects.toThrow(/its SHA-256 is [0-9a-f]{64}, the hub says [0-9a-f]{64}.*thrown away/)
    hub.faults.spoil = null
    await expectWhole(await open(WHOLE))
    expect(weightRequests()).toEqual(['model.safetensors whole', 'model.safetensors whole'])
  })

  it('on the disk, of a download that broke off, are noticed as well', async () => {
    Object.assign(hub.faults, { cut: { path: 'model.safetensors', after: 20_000, times: 1 } })
    await open(WHOLE, { tries: 1 }).catch(() => {})
    const blobs = join(folder, 'models--someone--whole', 'blobs')
    const [partial] = (await readdir(blobs)).filter((name) => name.endsWith('.incomplete'))
    const bytes = await readFile(join(blobs, partial))
    bytes[7]++
    await writeFile(join(blobs, partial), bytes)
    await expect(open(WHOLE)).rejects.toThrow(/its SHA-256 is/)
    await expectWhole(await open(WHOLE))
  })

  it('of another number are refused', async () => {
    const path = 'model.safetensors'
    Object.assign(hub.faults, { lie: { path, bytes: 1234 } })
    await expect(open(WHOLE)).rejects.toThrow(/the server sends \d+ bytes, the hub's list says 1234/)
  })

  it('that are an index of files elsewhere are not followed', () => {
    const index = (file: string) => new TextEncoder().encode(JSON.stringify({ weight_map: { a: file } }))
    expect(() => shardsOf(index('../../evil.safetensors'))).toThrow(/got "\.\.\/\.\.\/evil\.safetensors"/)
    expect(() => shardsOf(index('a.bin'))).toThrow(/got "a\.bin"/)
    expect(() => shardsOf(new TextEncoder().encode('<html>'))).toThrow(/expected a weight_map/)
  })
})

describe('access', () => {
  beforeEach(() => Object.assign(hub.models[WHOLE], { token: 'hf_right', strangersToken: 'hf_stranger' }))

  it('is had with a token, which goes to the hub and no further', async () => {
    await expectWhole(await open(WHOLE, { token: 'hf_right' }))
    expect(
      hub.asked
        .filter(({ server }) => server === 'hub')
        .every(({ authorization }) => authorization === 'Bearer hf_right'),
    ).toBe(true)
    const elsewhere = hub.asked.filter(({ server }) => server === 'cdn')
    expect(elsewhere.length).toBeGreaterThan(0)
    expect(elsewhere.map(({ authorization }) => authorization)).toEqual(elsewhere.map(() => null))
    // Nothing on the disk holds it.
    for (const entry of await readdir(folder, { recursive: true })) {
      const path = join(folder, entry)
      if ((await stat(path)).isFile()) expect(await readFile(path, 'latin1')).not.toContain('hf_right')
    }
  })

  it('is refused in sentences that say what to do', async () => {
    await expect(open(WHOLE)).rejects.toThrow(
      /it asks for a token \(401\)\. Either the model is gated: accept its terms at .*someone\/whole/,
    )
    await expect(open(WHOLE, { token: 'hf_wrong' })).rejects.toThrow(
      /the token is not accepted \(401\).*settings\/tokens/,
    )
    const refused = open(WHOLE, { token: 'hf_stranger' })
    await expect(refused).rejects.toThrow(
      /access was refused \(403\)\. Accept the model's terms at .* with the account of the token/,
    )
    await expect(refused).rejects.toMatchObject({ name: 'GatedModel' })
    await expect(open('nobody/nothing')).rejects.toThrow(/or there is no model of this name/)
  })

  it('is refused on a mirror too: what is missing there is named', async () => {
    Object.assign(hub.faults, { noList: true })
    await expect(open('nobody/nothing')).rejects.toThrow(
      /Read config\.json of nobody\/nothing: the model has no such file/,
    )
  })
})

describe('a checkpoint that cannot be used', () => {
  it('is named before anything is fetched', async () => {
    const { files } = hub.models[WHOLE]
    hub.models['someone/old'] = { files: { ...files, 'pytorch_model.bin': files['model.safetensors'] } }
    delete hub.models['someone/old'].files['model.safetensors']
    await expect(open('someone/old')).rejects.toThrow(/has neither model\.safetensors nor .*reads safetensors alone/)
    const { 'tokenizer.json': _, ...slow } = files
    hub.models['someone/slow'] = { files: slow }
    await expect(open('someone/slow')).rejects.toThrow(/it has no tokenizer\.json\. .*with a fast tokenizer/)
  })

  it('is a StorageFull where there is no room', async () => {
    store.room = async () => 1000
    const full = open(WHOLE)
    await expect(full).rejects.toThrow(/There is no room for someone\/whole: its weights take 1 MB, and 1 MB are free/)
    await expect(full).rejects.toMatchObject({ name: 'StorageFull' })
    expect(weightRequests()).toEqual([])
  })
})

describe('where huggingface_hub keeps things', () => {
  it('is found by the same variables', async () => {
    expect(hubCacheFolder({ HF_HUB_CACHE: '/a', HF_HOME: '/b' })).toBe('/a')
    expect(hubCacheFolder({ HF_HOME: '/b' })).toBe(join('/b', 'hub'))
    expect(hubCacheFolder({ XDG_CACHE_HOME: '/c' })).toBe(join('/c', 'huggingface', 'hub'))
    expect(await hubToken({ HF_TOKEN: ' hf_x ' })).toBe('hf_x')
    await writeFile(join(folder, 'token'), 'hf_y\n')
    expect(await hubToken({ HF_HOME: folder })).toBe('hf_y')
    expect(await hubToken({ HF_HOME: join(folder, 'none') })).toBeNull()
  })
})

describe('the name of a model', () => {
  it.each([
    ['lab-tiny', { kind: 'bundled', name: 'lab-tiny' }],
    ['Qwen/Qwen3-0.6B', { kind: 'hub', name: 'Qwen/Qwen3-0.6B' }],
    ['dropped:my model', { kind: 'dropped', name: 'my model' }],
    ['file:///data/my%20model', { kind: 'folder', path: '/data/my model' }],
    ['file:/data/model', { kind: 'folder', path: '/data/model' }],
    ['file:here', { kind: 'folder', path: 'here' }],
    ['./out/model', { kind: 'folder', path: './out/model' }],
    ['~/model', { kind: 'folder', path: '~/model' }],
    ['outputs/run/model', { kind: 'folder', path: 'outputs/run/model' }],
  ])('%s', (model, named) => {
    expect(readModelName(model)).toEqual(named)
  })

  it('that is none is a sentence', () => {
    expect(() => readModelName('https://example.org/model')).toThrow(
      /There is no model "https:.* expected a bundled model/,
    )
    expect(() => readModelName('two words')).toThrow(/a Hugging Face id \(Qwen\/Qwen3-0\.6B\) or a folder/)
  })
})

describe('a run in Node', () => {
  const place = { models: join(ROOT, 'models'), runs: '', wasm: '' }
  const set = (variables: Record<string, string>) => {
    const before = { ...process.env }
    Object.assign(process.env, variables)
    onTestFinished(() => {
      for (const name of Object.keys(variables)) {
        if (before[name] === undefined) delete process.env[name]
        else process.env[name] = before[name]
      }
    })
  }

  it('has its model from a hub, a mirror, a folder or beside it', async () => {
    set({ HF_HOME: folder, HF_ENDPOINT: hub.base, HF_TOKEN: 'hf_right' })
    const realm = createRealm(place)
    const told: string[] = []
    const read = await realm.modelFiles(WHOLE, { onFetch: ({ file }) => told.push(file) })
    const model = await openModel(read, WHOLE)
    expect(told).toContain('model.safetensors')
    const snapshots = join(folder, 'hub', 'models--someone--whole', 'snapshots')
    const snapshot = join(snapshots, (await readdir(snapshots))[0])
    expect((await openModel(await realm.modelFiles(`file:${snapshot}`), 'folder')).hash).toBe(model.hash)
    expect((await openModel(await realm.modelFiles('lab-nano'), 'lab-nano')).card.layers).toBeGreaterThan(0)
    await expect(realm.modelFiles('lab-huge')).rejects.toThrow(
      /There is no model lab-huge: neither .* holds a config\.json/,
    )
    await expect(realm.modelFiles('dropped:x')).rejects.toThrow(/Name its folder: file:/)
  })

  it('that cannot fit is refused before a weight is fetched, with what would make it fit', async () => {
    set({ HF_HOME: folder, HF_ENDPOINT: hub.base, HF_TOKEN: '' })
    const { config } = load({
      ...{ model: WHOLE, env: [{ id: 'reverse-text' }], batch_size: 512, rollouts_per_example: 8 },
      ...{ micro_batch_size: 512, browser: { memory_gb: 0.5, backend: 'cpu' } },
    })
    const refused = openLearner(createRealm(place), config!, null)
    await expect(refused).rejects.toThrow(
      /^someone\/whole needs about [\d.]+ GB here, and 0\.5 GB may be used .*With micro_batch_size = \d+ it takes/,
    )
    expect(weightRequests()).toEqual([])
    const learner = await openLearner(
      createRealm(place),
      { ...config!, micro_batch_size: 8, browser: { ...config!.browser, backend: 'wasm' } },
      null,
    )
    expect(learner.model.hash).toBe((await randomModel()).hash)
    learner.dispose()
  })

  it('trains it from the command line, and tells how far the fetch is', async () => {
    set({ HF_HOME: folder, HF_TOKEN: '' })
    const nano: Record<string, Uint8Array> = {}
    for (const name of ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'model.safetensors'])
      nano[name] = new Uint8Array(await readFile(join(ROOT, 'models/lab-nano', name)))
    hub.models['someone/nano'] = { files: nano }
    const said: string[] = []
    const code = await train({
      root: ROOT,
      file: join(ROOT, 'configs/rl/reverse-text-nano.toml'),
      set: [
        ...['model="someone/nano"', `browser.hub="${hub.base}"`, 'browser.backend="wasm"', 'max_steps=1'],
        ...[
          'batch_size=8',
          'rollouts_per_example=4',
          'eval.interval=50',
          'eval.num_examples=2',
          'scheduler.warmup_steps=0',
        ],
      ],
      out: join(folder, 'run'),
      write: (line) => said.push(line),
      status: (line) => said.push(line),
    })
    expect(code).toBe(0)
    expect(said.join('\n')).toMatch(/fetching model\.safetensors: 0\.2 of 0\.2 MB/)
    expect(said.join('\n')).toMatch(/someone\/nano: [\d,.]+ ?\w* parameters/)
  })

  it("gives the machine's token to its own hub, and not to one that a config names", async () => {
    set({ HF_HOME: folder, HF_ENDPOINT: `${hub.base}/`, HF_TOKEN: 'hf_right' })
    await createRealm(place).modelFiles(WHOLE)
    expect(hub.asked.some(({ authorization }) => authorization === 'Bearer hf_right')).toBe(true)
    const other = await startHub(await hosted())
    onTestFinished(() => other.close())
    await createRealm(place).modelFiles(SHARDED, { hub: other.base })
    expect(other.asked.length).toBeGreaterThan(0)
    expect(other.asked.filter(({ authorization }) => authorization !== null)).toEqual([])
  })
})
