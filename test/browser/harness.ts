// Runs code in a real Chromium with WebGPU (in software, unless CHROME_FLAGS says otherwise) and watches what a page
// does: its errors and its requests. Each test file gets a Chromium of its own.

import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, inject } from 'vitest'
import { findChromium } from '../../bin/chromium.mjs'
import { ROOT } from '../../build/paths.ts'

const ADAPTER_FLAGS = process.env.CHROME_FLAGS?.split(/\s+/) ?? ['--use-webgpu-adapter=swiftshader']
const FLAGS = [
  '--headless=new',
  '--no-sandbox',
  '--enable-unsafe-webgpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-quic',
]

let launched: Promise<Browser> | undefined

/** The Chromium of this test file, started at the first call and closed after the last test. */
export function browser(): Promise<Browser> {
  launched ??= launch([...FLAGS, ...ADAPTER_FLAGS])
  return launched
}

/**
 * Closes the Chromium of this test file and starts it as a person on a machine without a graphics card has it: no
 * WebGPU adapter. Every name leads to this machine, so that an insecure address can be had.
 */
export async function browserWithoutAdapter(): Promise<Browser> {
  await (await launched)?.close()
  const flags = FLAGS.filter((flag) => !flag.includes('webgpu'))
  launched = launch([...flags, '--host-resolver-rules=MAP * 127.0.0.1'])
  return launched
}

afterAll(async () => {
  await (await launched)?.close()
  launched = undefined
})

async function launch(args: string[]): Promise<Browser> {
  const executablePath = findChromium()
  if (!executablePath)
    throw new Error('No Chrome or Chromium was found: run npm test, which installs one, or set CHROME_PATH.')
  return chromium.launch({ executablePath, args })
}

/** A page, what it complained of, and where it sent requests. */
export interface Watched {
  page: Page
  /** Uncaught errors and console errors, workers' included. */
  errors: string[]
  /** Every URL asked for, workers' included. */
  requests: string[]
}

/** Opens a page in a context of its own (fresh storage), or in the given one. */
export async function openPage(url: string, context?: BrowserContext): Promise<Watched> {
  const own = context ?? (await (await browser()).newContext())
  const page = await own.newPage()
  const errors: string[] = []
  const requests: string[] = []
  page.on('pageerror', (error) => errors.push(error.stack ?? String(error)))
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(`${message.text()} (${message.location().url})`)
    else if (process.env.ROLLOUT_LAB_VERBOSE) console.log(`[page] ${message.text()}`)
  })
  page.on('requestfailed', (request) => {
    // A request that the page itself gave up is no error.
    if (request.failure()?.errorText !== 'net::ERR_ABORTED') {
      errors.push(`${request.url()} failed: ${request.failure()?.errorText}`)
    }
  })
  own.on('request', (request) => requests.push(request.url()))
  await page.goto(url)
  return { page, errors, requests }
}

export interface Realm {
  page: Page
  errors: string[]
  /** Calls an exported async function with arguments that can be cloned, and resolves to its result. */
  call<Result>(module: string, exportName: string, args?: unknown[], timeoutMs?: number): Promise<Result>
  close(): Promise<void>
}

/**
 * A page, or a module worker in it, that can load modules of the repository. Modules that are written to run there are
 * named `*.page.ts`; `module` is a path from the repository's root.
 */
export async function openRealm(where: 'worker' | 'page', context?: BrowserContext): Promise<Realm> {
  const origin = inject('devServer')
  const { page, errors } = await openPage(new URL('empty.html', origin).href, context)
  const { prefix, worker } = { prefix: `/@fs${ROOT}/`, worker: 'test/browser/caller.ts?worker_file&type=module' }
  if (where === 'worker') {
    await page.evaluate((url) => {
      const worker = new Worker(url, { type: 'module' })
      Object.assign(globalThis, { testWorker: worker })
    }, prefix + worker)
  }
  return {
    page,
    errors,
    async call<Result>(module: string, exportName: string, args: unknown[] = [], timeoutMs = 110_000) {
      const request = { url: prefix + module, exportName, args }
      const answer = page.evaluate(where === 'worker' ? callInWorker : callInPage, request)
      let timer: NodeJS.Timeout | undefined
      const late = new Promise<never>((_resolve, reject) => {
        const sentence = `${exportName} of ${module} did not return within ${timeoutMs} ms.`
        timer = setTimeout(() => reject(new Error([sentence, ...errors].join('\n'))), timeoutMs)
      })
      try {
        return (await Promise.race([answer, late])) as Result
      } finally {
        clearTimeout(timer)
        answer.catch(() => {})
      }
    },
    close: () => (context ? page.close() : page.context().close()),
  }
}

/** One call in a fresh realm: by default in a worker, where the trainer lives. */
export async function inPage<Result>(
  module: string,
  exportName: string,
  args: unknown[] = [],
  options: { where?: 'worker' | 'page'; timeoutMs?: number } = {},
): Promise<Result> {
  const realm = await openRealm(options.where ?? 'worker')
  try {
    return await realm.call<Result>(module, exportName, args, options.timeoutMs)
  } finally {
    await realm.close()
  }
}

interface CallRequest {
  url: string
  exportName: string
  args: unknown[]
}

// The two below are sent to the page as text: they can use nothing of this file.

async function callInPage({ url, exportName, args }: CallRequest): Promise<unknown> {
  const { importModule } = globalThis as unknown as {
    importModule(url: string): Promise<Record<string, (...args: unknown[]) => unknown>>
  }
  return (await importModule(url))[exportName](...args)
}

function callInWorker(request: CallRequest): Promise<unknown> {
  const { testWorker } = globalThis as unknown as { testWorker: Worker }
  return new Promise((resolve, reject) => {
    const { port1, port2 } = new MessageChannel()
    port1.onmessage = ({ data }) => ('error' in data ? reject(new Error(data.error)) : resolve(data.result))
    testWorker.onerror = (event) => reject(new Error(`The worker did not load: ${event.message}`))
    testWorker.postMessage({ ...request, port: port2 }, [port2])
  })
}
