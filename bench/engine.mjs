// The engine's table: decoding and updates of the anchors' shapes in a real Chromium, where Python with torch is at hand the
// anchors beside them, as ratios of one run.
//
//   npm run bench [-- --chrome PATH] [--work tiny,smol135,qwen05] [--formats f32,f16,int8,int4] [--policies compiled,plain]
//       [--batches 1,8,64,256] [--variants trial|plain|subgroups|f16] [--trial] [--decoder batched|whole|both] [--verify]
//       [--profile] [--load] [--truncation] [--anchors] [--out FILE] [--built FOLDER] [--build-only]
//
// --variants: kernels as the start-up trial finds them (the default), all plain, or each in that variant where it has it;
// --trial prints what the trial measured. --decoder: decoding alone, one token of all sequences at a time against whole
// blocks of tokens in one dispatch, the latter in each of its tilings.

import { execFileSync, spawnSync } from 'node:child_process'
import { cp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { serveFolder } from './serveFolder.mjs'

/**
 * @typedef {import('./engine/measure.ts').Work} Work
 * @typedef {import('./engine/measure.ts').Measured & { error?: string }} Line
 * @typedef {import('./engine/measure.ts').Tried} Tried
 * @typedef {{ model: string, dtype: string, B: number, graph_decode_tok_s?: number, compiled_train_tok_s?: number,
 *   eager_train_tok_s?: number }} Anchor
 */

const root = join(import.meta.dirname, '..')
const { values } = parseArgs({
  options: {
    chrome: { type: 'string', default: '/usr/bin/chromium' },
    flags: { type: 'string', default: '' },
    work: { type: 'string', default: 'tiny,smol135,qwen05' },
    formats: { type: 'string', default: 'f32' },
    policies: { type: 'string', default: 'compiled' },
    batches: { type: 'string', default: '1,8,64,256' },
    rows: { type: 'string', default: '' },
    recompute: { type: 'string', default: '' },
    profile: { type: 'boolean', default: false },
    variants: { type: 'string', default: 'trial' },
    decoder: { type: 'string', default: '' },
    trial: { type: 'boolean', default: false },
    verify: { type: 'boolean', default: false },
    load: { type: 'boolean', default: false },
    truncation: { type: 'boolean', default: false },
    anchors: { type: 'string', default: '' },
    out: { type: 'string', default: '' },
    built: { type: 'string', default: join(root, 'dist/bench') },
    'build-only': { type: 'boolean', default: false },
    'no-build': { type: 'boolean', default: false },
  },
})

if (!values['no-build']) await build()
if (!values['build-only']) await run()

async function build() {
  const { build } = await import('vite')
  await build({
    configFile: false,
    root: join(root, 'bench/engine'),
    base: './',
    logLevel: 'warn',
    worker: { format: 'es' },
    build: { outDir: values.built, emptyOutDir: true, target: 'es2022', chunkSizeWarningLimit: 4000 },
  })
  await cp(join(root, 'models/lab-tiny'), join(values.built, 'models/lab-tiny'), { recursive: true })
}

async function run() {
  const { chromium } = await import('playwright-core')
  const server = await serveFolder(values.built)
  const browser = await chromium.launch({
    executablePath: values.chrome,
    args: ['--no-sandbox', '--enable-unsafe-webgpu', ...values.flags.split(' ').filter(Boolean)],
  })
  /** @type {Line[]} */
  const results = []
  /** @type {object[]} */
  const verified = []
  /** @type {Tried[]} */
  const tried = []
  const began = new Date().toISOString()
  /** @type {string | null} */
  let device = null
  try {
    for (const work of asked()) {
      const page = await browser.newPage()
      page.on('pageerror', (error) => console.error(error.message))
      page.on('console', (message) => message.type() === 'error' && console.error(message.text()))
      await page.goto(server.url)
      await page.waitForFunction(() => 'measure' in window)
      await page.evaluate((work) => /** @type {any} */ (window).measure([work]), work)
      for (let done = false, seen = 0; !done; ) {
        const heard = await page.evaluate((from) => /** @type {any} */ (window).heard.slice(from), seen)
        seen += heard.length
        for (const message of heard) {
          if (message.device) device = message.device
          if (message.error) console.error(message.error)
          if (message.tried) {
            tried.push(message.tried)
            if (values.trial) console.log(trialTable(message.tried))
          }
          if (message.verified) {
            verified.push(message.verified)
            console.log(JSON.stringify(message.verified))
          }
          if (message.line) {
            results.push(message.line)
            console.log(sentence(message.line))
          }
          done ||= Boolean(message.done)
        }
        if (!done) await new Promise((resolve) => setTimeout(resolve, 100))
      }
      await page.close()
    }
  } finally {
    await browser.close()
    server.close()
  }
  const anchors = values.anchors ? takeAnchors(values.anchors) : []
  for (const line of ratios(results, anchors)) console.log(line)
  if (values.out) {
    const commit = spawnSync('git', ['rev-parse', 'HEAD'], { cwd: root }).stdout?.toString().trim()
    const report = {
      began,
      device,
      driver: driver(),
      chromium: values.chrome,
      commit,
      results,
      tried,
      verified,
      anchors,
    }
    await writeFile(values.out, `${JSON.stringify(report, null, 1)}\n`)
  }
}

function asked() {
  if (values.verify) return [{ verify: true, variants: values.variants }]
  return values.truncation ? [{ truncation: true }] : plan()
}

/** @returns {Work[]} */
function plan() {
  /** @type {Record<string, number>} */
  const rowsOf = { tiny: 64, smol135: 64, qwen05: 16 }
  const list = (/** @type {string} */ text) => text.split(',').filter(Boolean)
  return list(values.work).flatMap((model) =>
    list(values.policies).flatMap((policy) =>
      list(policy === 'plain' ? 'f32' : values.formats).map((format) => ({
        policy: /** @type {Work['policy']} */ (policy),
        model,
        format: /** @type {Work['format']} */ (format),
        decode: list(values.batches).map(Number),
        rows: values.rows === '' ? rowsOf[model] : Number(values.rows),
        recompute: /** @type {Work['recompute']} */ (values.recompute || undefined),
        variants: /** @type {Work['variants']} */ (values.variants),
        decoder: /** @type {Work['decoder']} */ (values.decoder || undefined),
        profile: values.profile,
        load: values.load,
      })),
    ),
  )
}

/** @param {Tried} tried */
function trialTable({ model, format, milliseconds, lines, notes }) {
  const number = (/** @type {number | null} */ value) => (value === null ? '–' : value.toFixed(1)).padStart(9)
  const rows = lines.map(
    ({ key, variant, taken, plainMicroseconds, variantMicroseconds, difference, note }) =>
      `    ${key.padEnd(32)} plain ${number(plainMicroseconds)} µs, ${variant.padEnd(9)} ${number(variantMicroseconds)} µs, ` +
      `off by ${difference === null ? '–' : difference.toExponential(0)}: ${taken}${note ? ` (${note})` : ''}`,
  )
  return [`trial of ${model} ${format}, ${Math.round(milliseconds)} ms`, ...rows, ...notes].join('\n')
}

/** @param {Line} line */
function sentence({ policy, model, format, what, tokensPerSecond, milliseconds, gpuBytes, owners, kernels, error }) {
  if (error) return `${policy} ${model} ${format}: ${error}`
  const unit = what.startsWith('load') ? 'weights' : 'tok'
  const head =
    `${policy} ${model} ${format} ${what}: ${Math.round(tokensPerSecond).toLocaleString('en')} ${unit}/s, ` +
    `${milliseconds.toFixed(milliseconds < 1 ? 4 : 1)} ms, ${(gpuBytes / 2 ** 30).toFixed(2)} GiB`
  const memory = owners
    ? `\n    ${Object.entries(owners)
        .map(([owner, bytes]) => `${owner} ${(bytes / 2 ** 20).toFixed(0)} MiB`)
        .join(', ')}`
    : ''
  const times = (kernels ?? [])
    .slice(0, 24)
    .map((kernel) => `\n    ${kernel.name} ${kernel.dispatches}× ${kernel.milliseconds.toFixed(2)} ms`)
    .join('')
  return head + memory + times
}

/**
 * Runs the anchors' script with Python; nothing where torch is missing.
 * @param {string} script
 * @returns {Anchor[]}
 */
function takeAnchors(script) {
  const { status, stdout } = spawnSync('python3', [script], { encoding: 'utf8', maxBuffer: 1 << 24 })
  if (status !== 0) return []
  return stdout
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line))
}

/**
 * @param {Line[]} results
 * @param {Anchor[]} anchors
 */
function ratios(results, anchors) {
  return results.flatMap(({ model, format, policy, what, tokensPerSecond }) => {
    if (!what) return []
    const dtype = format === 'f32' ? 'float32' : 'bfloat16'
    const [, batch] = /^decode B=(\d+)/.exec(what) ?? []
    const anchor = anchors.find((a) => a.model === model && a.dtype === dtype && a.B === Number(batch ?? 64))
    if (!anchor) return []
    const against = batch
      ? { 'CUDA graph': anchor.graph_decode_tok_s }
      : { 'torch.compile': anchor.compiled_train_tok_s, eager: anchor.eager_train_tok_s }
    return Object.entries(against).flatMap(([name, speed]) =>
      speed
        ? [`${policy} ${model} ${format} ${what}: ${(tokensPerSecond / speed).toFixed(2)}× ${name} ${dtype} (${speed})`]
        : [],
    )
  })
}

function driver() {
  try {
    return execFileSync('nvidia-smi', ['--query-gpu=name,driver_version', '--format=csv,noheader']).toString().trim()
  } catch {
    return null
  }
}
