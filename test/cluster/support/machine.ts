// Where Slurm's programs come from: this machine, or a folder with another Debian, in which they are begun with their
// files, the temporary folder and this repository at the same places as here.

import { execFile } from 'node:child_process'
import { appendFile, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../../../build/paths.ts'

const run = promisify(execFile)

/** Programs of an administrator are not on everybody's PATH. */
export const ENVIRONMENT = { ...process.env, PATH: `${process.env.PATH ?? ''}:/usr/sbin:/usr/bin:/sbin:/bin` }

/** An empty path for this machine. */
export type MachineFolder = string

/** A program and its arguments as they are begun from here. */
export function begin(machine: MachineFolder, program: string, args: string[]): [string, string[]] {
  if (machine === '') return [program, args]
  const seen = [tmpdir(), ROOT, process.execPath]
  return [
    'unshare',
    ['--mount', '--propagation', 'private', 'sh', '-ec', ENTER, 'sh', machine, ...seen, program, ...args],
  ]
}

/** In a name space of its own: when the last process in it ends, nothing of this is left. */
const ENTER = `
root=$1
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
[ -e "$root/etc/hosts" ] || touch "$root/etc/hosts"
mount --bind /etc/hosts "$root/etc/hosts"
for at in "$2" "$3" "$4"; do
  if [ -d "$at" ]; then mkdir -p "$root$at"; else mkdir -p "$(dirname "$root$at")"; touch "$root$at"; fi
  mount --bind "$at" "$root$at"
done
shift 4
exec chroot "$root" "$@"
`

/** `22.05`, `24.11`. */
export async function versionOf(machine: MachineFolder): Promise<string> {
  const { stdout } = await run(...begin(machine, 'slurmctld', ['-V']), { env: ENVIRONMENT })
  const version = /(\d+\.\d+)(\.\d+)?/.exec(stdout)?.[1]
  if (!version) throw new Error(`slurmctld -V says ${JSON.stringify(stdout)}; expected a version.`)
  return version
}

export interface Account {
  uid: number
  gid: number
}

/** A user of the machine; with `make` one that is made where it is missing, of the same number here and there. */
export async function accountOf(machine: MachineFolder, name: string, make = false): Promise<Account> {
  const known = await lookedUp(machine, name)
  if (known) return known
  if (!make) throw new Error(`There is no user ${name} ${machine || 'here'}; its package makes it.`)
  if (machine === '') {
    const args = ['--system', '--user-group', '--no-create-home', '--shell', '/usr/sbin/nologin', name]
    await run('useradd', args, { env: ENVIRONMENT })
    return accountOf('', name)
  }
  const { uid, gid } = await accountOf('', name, true)
  await appendFile(join(machine, 'etc/passwd'), `${name}:x:${uid}:${gid}::/nonexistent:/usr/sbin/nologin\n`)
  await appendFile(join(machine, 'etc/group'), `${name}:x:${gid}:\n`)
  return { uid, gid }
}

async function lookedUp(machine: MachineFolder, name: string): Promise<Account | null> {
  const lines = (await readFile(join(machine || '/', 'etc/passwd'), 'utf8')).split('\n')
  const [, , uid, gid] = lines.find((line) => line.startsWith(`${name}:`))?.split(':') ?? []
  return uid === undefined ? null : { uid: Number(uid), gid: Number(gid) }
}
