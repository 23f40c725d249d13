// Where a full-size run lies on the shared disk. Ours and prime-rl's are kept apart, so that its own checks of its run
// directory see nothing foreign.
//
//   <runs_root>/<run>/attempt_<n>/config.toml   what prime-rl is told
//   <runs_root>/<run>/attempt_<n>/job_<id>.log  what the job prints
//   <runs_root>/<run>/attempt_<n>/started       written by the job as it begins
//   <runs_root>/<run>/attempt_<n>/secrets       variables, 0600; removed by the job as it begins
//   <runs_root>/<run>/model/                    a bundled model, where the run trains one
//   <runs_root>/<run>/output/                   prime-rl's run directory

import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'

export class RunLayout {
  readonly folder: string

  constructor(runsRoot: string, run: string) {
    if (!/^[A-Za-z0-9_-]+$/.test(run)) throw new Error(`internal: "${run}" is no id of a run`)
    this.folder = join(runsRoot, run)
  }

  get output(): string {
    return join(this.folder, 'output')
  }

  get model(): string {
    return join(this.folder, 'model')
  }

  get metrics(): string {
    return join(this.output, 'metrics.jsonl')
  }

  attempt(number: number): string {
    return join(this.folder, `attempt_${number}`)
  }

  rollouts(step: number, split: 'train' | 'eval', subset: 'all' | 'effective'): string {
    return join(this.output, 'rollouts', `step_${step}`, split, subset, 'traces.jsonl')
  }

  /** prime-rl's own attempts, in order: `logs/attempt_1`, … */
  async logFolders(): Promise<string[]> {
    const logs = join(this.output, 'logs')
    const steps = await numbered(logs, /^attempt_(\d+)$/)
    return steps.map((k) => join(logs, `attempt_${k}`))
  }

  /** Steps whose weights were broadcast whole, in order. */
  async broadcasts(): Promise<{ step: number; folder: string }[]> {
    const folder = join(this.output, 'broadcasts')
    const steps = await numbered(folder, /^step_(\d+)$/)
    const found = await Promise.all(
      steps.map(async (step) => {
        const at = join(folder, `step_${step}`)
        return (await exists(join(at, 'STABLE'))) ? { step, folder: at } : null
      }),
    )
    return found.filter((each) => each !== null)
  }

  /** Checkpoints of which both halves are whole, in order: a run can be resumed from each. */
  async checkpoints(): Promise<{ step: number; folder: string }[]> {
    const folder = join(this.output, 'checkpoints')
    const steps = await numbered(folder, /^step_(\d+)$/)
    const found = await Promise.all(
      steps.map(async (step) => {
        const at = join(folder, `step_${step}`)
        // torch writes .metadata last, the orchestrator renames its file into place.
        const whole =
          (await exists(join(at, 'trainer', '.metadata'))) && (await exists(join(at, 'orchestrator', 'progress.pt')))
        return whole ? { step, folder: at } : null
      }),
    )
    return found.filter((each) => each !== null)
  }
}

async function numbered(folder: string, pattern: RegExp): Promise<number[]> {
  const names = await readdir(folder).catch(() => [] as string[])
  return names
    .flatMap((name) => pattern.exec(name)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b)
}

export async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}
