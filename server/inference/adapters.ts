// POST /v1/load_lora_adapter and /v1/unload_lora_adapter, as vLLM has them: adapters by folder below one root. Offered only
// where that root is named.

import { readFile, realpath } from 'node:fs/promises'
import { join, resolve, sep } from 'node:path'
import type { Context } from 'hono'
import { z } from 'zod'
import type { ExportedFile } from '../../workers/protocol.ts'
import { readBody } from './body.ts'
import type { Engine } from './engine.ts'
import { Refused } from './errors.ts'

const NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$/
const loadBody = z.looseObject({
  lora_name: z.string().regex(NAME, 'expected letters, digits and . _ @ -'),
  lora_path: z.string().min(1),
  load_inplace: z.boolean().nullish(),
})
const unloadBody = z.looseObject({ lora_name: z.string() })

export async function loadAdapter(c: Context, engine: Engine, root: string): Promise<Response> {
  const { lora_name: name, lora_path: path, load_inplace: inPlace } = await readBody(c, loadBody)
  if (engine.adapter(name) && !inPlace)
    throw new Refused(400, `The adapter ${name} has already been loaded: unload it first, or say load_inplace.`, {
      param: 'lora_name',
    })
  const files = await readAdapterFolder(root, path)
  await engine.addAdapter({ name, base: baseOf(files), files, root: path })
  return c.text(`Success: LoRA adapter '${name}' added successfully.`)
}

export async function unloadAdapter(c: Context, engine: Engine): Promise<Response> {
  const { lora_name: name } = await readBody(c, unloadBody)
  if (!(await engine.removeAdapter(name)))
    throw new Refused(404, `The adapter ${name} is not loaded here.`, { param: 'lora_name' })
  return c.text(`Success: LoRA adapter '${name}' removed successfully.`)
}

async function readAdapterFolder(root: string, path: string): Promise<ExportedFile[]> {
  const missing = () =>
    new Refused(404, `There is no adapter at ${path} below this server's adapter folder.`, { param: 'lora_path' })
  const inside = await realpath(root).catch(() => null)
  const folder = await realpath(resolve(root, path)).catch(() => null)
  if (inside === null || folder === null || !(folder + sep).startsWith(inside + sep)) throw missing()
  return Promise.all(
    ['adapter_config.json', 'adapter_model.safetensors'].map(async (name) => {
      const file = await realpath(join(folder, name)).catch(() => null)
      if (file === null || !file.startsWith(inside + sep)) throw missing()
      return { name, bytes: new Uint8Array(await readFile(file)) }
    }),
  )
}

/** The base that an adapter names: its last part, as hub ids and folders both end in the model's name. */
export function baseOf(files: ExportedFile[]): string {
  const config = files.find(({ name }) => name === 'adapter_config.json')
  try {
    const { base_model_name_or_path: base } = JSON.parse(new TextDecoder().decode(config?.bytes))
    if (typeof base === 'string' && base !== '') return base.replace(/\/+$/, '').split('/').at(-1)!
  } catch {
    // Said below.
  }
  throw new Refused(
    400,
    'The adapter does not name its base model: adapter_config.json has no base_model_name_or_path.',
  )
}
