// A trainer in the place of the learning library: the real schedule, saves and events on a policy that is a table, so
// that a run takes milliseconds. Built into one file for the process of a run (standInProgram.ts). A file `pace` beside
// the run folders says how many milliseconds a step takes at least.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { OpenTrainer } from '../../../workers/host.node.ts'
import { NodeRunLibrary } from '../../../workers/storage/node.ts'
import type { RunWriter } from '../../../workers/storage/store.ts'
import { Lab } from '../../trainer/lab.ts'

export async function openTrainer({ runs }: { root: string; runs: string }): Promise<OpenTrainer> {
  console.log(`environment ${JSON.stringify(process.env)}`)
  const { trainer } = new Lab(runs).trainer({ library: new PacedLibrary(runs) })
  return { trainer, lost: new Promise(() => {}), close: async () => {} }
}

class PacedLibrary extends NodeRunLibrary {
  override async open(run: string): Promise<RunWriter> {
    const writer = await super.open(run)
    const append = writer.append.bind(writer)
    writer.append = async (events) => {
      if (events.some(({ kind }) => kind === 'step'))
        await new Promise((resolve) => setTimeout(resolve, pace(this.root)))
      return append(events)
    }
    return writer
  }
}

function pace(runs: string): number {
  try {
    const text = readFileSync(join(runs, 'pace'), 'utf8')
    if (text === 'memory') hold.push(Buffer.alloc(64 * 1024 * 1024, 1))
    return Number(text) || 20
  } catch {
    return 0
  }
}

const hold: Buffer[] = []
