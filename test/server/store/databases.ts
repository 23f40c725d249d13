// The databases on which the store's tests run: SQLite in a folder, and Debian's PostgreSQL where it is installed, started
// for the tests alone, on a socket in a temporary folder.

import { execFileSync, spawn } from 'node:child_process'
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface TestDatabase {
  name: 'sqlite' | 'postgres'
  /** A fresh database: null is SQLite in the store's own folder. */
  url(): string | null
  stop(): Promise<void>
}

const VERSIONS = '/usr/lib/postgresql'

/** The folder of initdb and postgres; null where PostgreSQL is not installed. */
function postgresPrograms(): string | null {
  if (!existsSync(VERSIONS)) return null
  const folders = readdirSync(VERSIONS).map((version) => join(VERSIONS, version, 'bin'))
  return (
    folders.findLast((folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres'))) ?? null
  )
}

export const sqlite: TestDatabase = { name: 'sqlite', url: () => null, stop: async () => {} }

/** Starts a server of its own; null, with a line on the terminal, where PostgreSQL is not installed. */
export async function startPostgres(): Promise<TestDatabase | null> {
  const programs = postgresPrograms()
  if (!programs) {
    process.stdout.write('skipped: PostgreSQL is not installed (apt-get install postgresql)\n')
    return null
  }
  const folder = mkdtempSync(join(tmpdir(), 'rollout-lab-pg-'))
  // PostgreSQL refuses to run as root.
  const user = process.getuid?.() === 0 ? identityOf('nobody') : null
  if (user) chownSync(folder, user.uid, user.gid)
  const data = join(folder, 'data')
  const options = { ...user, cwd: folder, env: { PATH: process.env.PATH, HOME: folder, LANG: 'C.UTF-8' } }
  execFileSync(join(programs, 'initdb'), ['-D', data, '-U', 'lab', '-A', 'trust', '-E', 'UTF8', '--no-sync'], {
    ...options,
    stdio: 'ignore',
  })
  const server = spawn(
    join(programs, 'postgres'),
    ['-D', data, '-k', folder, '-c', 'listen_addresses=', '-c', 'fsync=off', '-c', 'max_connections=50'],
    { ...options, stdio: 'ignore' },
  )
  const ended = new Promise<void>((resolve) => server.once('exit', () => resolve()))
  const psql = (sql: string) =>
    execFileSync('psql', ['-h', folder, '-U', 'lab', '-d', 'postgres', '-c', sql], { stdio: 'ignore' })
  for (let tries = 0; ; tries++) {
    try {
      psql('select 1')
      break
    } catch (error) {
      if (tries > 200) throw error
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  let made = 0
  return {
    name: 'postgres',
    url() {
      const name = `lab_${++made}`
      psql(`create database ${name}`)
      return `postgres://lab@localhost/${name}?host=${encodeURIComponent(folder)}`
    },
    async stop() {
      server.kill('SIGINT')
      await ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function identityOf(user: string): { uid: number; gid: number } {
  const id = (flag: string) => Number(execFileSync('id', [flag, user], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}
