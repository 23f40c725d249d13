import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ArtifactStore } from '../../../server/store/artifacts/artifacts.ts'
import { artifactsOf, artifactsSchema } from '../../../server/store/artifacts/config.ts'
import { DiskArtifacts } from '../../../server/store/artifacts/disk.ts'
import { S3Artifacts } from '../../../server/store/artifacts/s3.ts'

const s3 = await startS3()
afterAll(() => s3?.stop())

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollout-lab-artifacts-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

const STORES: { name: string; open: () => ArtifactStore }[] = [
  { name: 'a disk', open: () => new DiskArtifacts(join(folder, 'store')) },
  ...(s3 ? [{ name: 'S3', open: () => new S3Artifacts({ ...s3.options, prefix: 'lab/' }) }] : []),
]

describe.each(STORES)('artifacts on $name', ({ open }) => {
  it.each([0, 1, 1000, 40 * 1024 * 1024])('come back as they were: %i bytes', async (size) => {
    const store = open()
    await store.check()
    const bytes = Buffer.alloc(size, 7)
    for (let i = 0; i < size; i += 4097) bytes[i] = i % 251
    const path = join(folder, 'file')
    await writeFile(path, bytes)
    const said = await store.put('run/1-file.bin', path)
    expect(said).toEqual({ bytes: size, sha256: createHash('sha256').update(bytes).digest('hex') })
    expect(bytes.equals(await taken(await store.read('run/1-file.bin')))).toBe(true)
    if (size < 10) return
    const range = await taken(await store.read('run/1-file.bin', { start: 3, end: 10 }))
    expect(range).toEqual(bytes.subarray(3, 10))
  })

  it('are replaced and removed', async () => {
    const store = open()
    await store.check()
    for (const text of ['first', 'second']) {
      await writeFile(join(folder, text), text)
      await store.put('run/a', join(folder, text))
      expect(String(await taken(await store.read('run/a')))).toBe(text)
    }
    await store.remove('run/a')
    await store.remove('run/a')
    await expect(store.read('run/a')).rejects.toThrow(/artifact run\/a/)
  })

  it('have no place outside of the store', async () => {
    const store = open()
    for (const place of ['../x', '/etc/passwd', 'a/../../b', 'a//b', '.hidden', 'a\\b', 'a\0b', '', 'a/'])
      await expect(store.read(place), place).rejects.toThrow(/internal/)
  })
})

describe('artifacts on a disk', () => {
  it('are not read through a link', async () => {
    const store = new DiskArtifacts(join(folder, 'store'))
    await mkdir(join(folder, 'store/run'), { recursive: true })
    await symlink('/etc/passwd', join(folder, 'store/run/link'))
    await expect(store.read('run/link')).rejects.toThrow(/ELOOP/)
  })
})

describe('[artifacts] of server.toml', () => {
  it('names the variable that is missing', () => {
    const table = artifactsSchema.parse({ s3: 'https://example.org/bucket', access_key_env: 'NO_SUCH_VARIABLE' })
    expect(() => artifactsOf(table)).toThrow(/NO_SUCH_VARIABLE, which is not set/)
    expect(artifactsOf(undefined)).toBeUndefined()
    expect(artifactsSchema.safeParse({ s3: 'file:///etc' }).success).toBe(false)
    expect(artifactsSchema.safeParse({ s3: 'https://h/b', prefix: '../' }).success).toBe(false)
  })
})

async function taken(stream: ReadableStream<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = []
  for await (const part of stream as unknown as AsyncIterable<Uint8Array>) parts.push(part)
  return Buffer.concat(parts)
}

/** moto's S3, where it is installed (pip install 'moto[server]'). */
async function startS3() {
  const path = [process.env.MOTO_BIN, ...(process.env.PATH ?? '').split(delimiter)]
  const program = path.map((place) => join(place ?? '', 'moto_server')).find((file) => existsSync(file))
  if (!program) {
    process.stdout.write("skipped: there is no S3 to try (pip install 'moto[server]'; MOTO_BIN names its folder)\n")
    return null
  }
  const port = await new Promise<number>((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number }
      probe.close(() => resolve(port))
    })
  })
  const server = spawn(program, ['-H', '127.0.0.1', '-p', String(port)], { stdio: 'ignore' })
  const endpoint = `http://127.0.0.1:${port}/bucket`
  while (!(await fetch(endpoint, { method: 'PUT' }).catch(() => null))?.ok)
    await new Promise((resolve) => setTimeout(resolve, 100))
  const options = { endpoint, region: 'us-east-1', accessKeyId: 'key', secretAccessKey: 'secret' }
  return { options, stop: () => void server.kill() }
}
