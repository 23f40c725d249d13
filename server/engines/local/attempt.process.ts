// The door of a run's process: `node attempt.js FOLDER`.

import { pathToFileURL } from 'node:url'
import { openTrainer } from '../../../workers/host.node.ts'
import { attend, type Open } from './attempt.ts'
import { JobFolder } from './jobFolder.ts'

const folder = new JobFolder(process.argv[2])
const job = await folder.job()
const given = job?.trainer
  ? ((await import(/* @vite-ignore */ pathToFileURL(job.trainer).href)) as { openTrainer: Open })
  : null
await attend(folder, given?.openTrainer ?? openTrainer)
process.exit(0)
