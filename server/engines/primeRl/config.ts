// What [slurm] and [ray] of server.toml have in common: where prime-rl lies, where its runs lie, and what it may run.

import { z } from 'zod'

const word = z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_.,:@%+[\]-]*$/, 'expected a plain word')
const folder = z.string().regex(/^\/[A-Za-z0-9_./@+-]*$/, 'expected an absolute path of plain letters')

export { folder, word }

export const primeRlShape = {
  /** On the shared disk, under the same path on this server and on every node. */
  runs_root: folder,
  /** The checkout of prime-rl, as the nodes see it. */
  project: folder,
  /** The program that trains; `.venv/bin/rl` of the checkout unless given. */
  command: folder.optional(),
  /** Ids and owners (`owner/`) of environments that may run: they are code. Any unless given. */
  environments: z.array(z.string().min(1)).optional(),
  /** Variables of every job. */
  environment: z.record(z.string().regex(/^[A-Za-z_]\w*$/), z.string()).default({}),
  /** How long a run may take to save when it is asked to end. */
  grace_seconds: z.number().positive().default(300),
  /** What jobs find their programs by. */
  path: z.string().default('/usr/local/bin:/usr/bin:/bin'),
  /** The user and group of the run folders, where this server runs as root. */
  owner: z.strictObject({ uid: z.number().int().min(1), gid: z.number().int().min(1) }).optional(),
  /** The operator's price, in any currency, for what a run costs; unknown unless given. */
  price_per_gpu_hour: z.number().positive().optional(),
}
