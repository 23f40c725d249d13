// Stands in for prime-rl's `rl` command: takes the same command line and config, and writes the same files at the same
// pace, so that everything but the GPUs is real. Faults are read from `faults.json` of the project folder.

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'smol-toml'
import { runFolder } from './runFolder.mjs'

const args = process.argv.slice(2)
/** @type {any} */
const config = parse(readFileSync(args[args.indexOf('@') + 1], 'utf8'))
const faultsFile = String(process.env.STAND_IN_FAULTS)
const faults = existsSync(faultsFile) ? JSON.parse(readFileSync(faultsFile, 'utf8')) : {}
const pace = faults.pace ?? 250
const output = join(config.output_dir, config.run.dir ?? config.run.name)
const orchestrator = config.orchestrator
/** @param {string} text */
const say = (text) => process.stdout.write(`${new Date().toISOString()} ${text}\n`)

const checkpoints = () =>
  (existsSync(join(output, 'checkpoints')) ? readdirSync(join(output, 'checkpoints')) : [])
    .map((name) => Number(name.replace('step_', '')))
    .sort((a, b) => a - b)

const resume = args.includes('--resume') || config.resume !== undefined
if (args.includes('--dry-run')) {
  if (!config.slurm || config.deployment.num_train_nodes < 1) {
    say('pydantic: 1 validation error for RLConfig: Must use SLURM for multi-node deployment.')
    process.exit(1)
  }
  const { slurm, deployment } = config
  const nodes = deployment.num_train_nodes + (deployment.num_infer_nodes ?? 1)
  mkdirSync(join(output, 'configs'), { recursive: true })
  // The directives of prime-rl's own template; its body, without what needs a GPU.
  writeFileSync(
    join(output, 'rl.sbatch'),
    `#!/bin/bash

#SBATCH --job-name=${slurm.job_name}
#SBATCH --nodes=${nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:${deployment.gpus_per_node}
#SBATCH --partition=${slurm.partition ?? 'cluster'}
#SBATCH --exclusive
#SBATCH --output=${output}/job_%j.log
#SBATCH --error=${output}/job_%j.log

set -e
cd ${slurm.project_dir}
echo "nodes: $(scontrol show hostnames $SLURM_JOB_NODELIST | tr '\\n' ' ')"
srun --ntasks-per-node=1 bash -c 'echo "rank $SLURM_PROCID of $SLURM_NTASKS"'
exec ${slurm.project_dir}/.venv/bin/rl @ ${args[args.indexOf('@') + 1]} --launched
`,
  )
  say('Dry run complete.')
  process.exit(0)
}
if (args.includes('--launched')) say('launched by rl.sbatch')
else if (args.includes('--clean') || config.clean) rmSync(output, { recursive: true, force: true })
else if (existsSync(output) && !resume) {
  say(`The run directory ${output} exists; pass --resume or --clean.`)
  process.exit(1)
}
const from = resume
  ? args.includes('--resume')
    ? checkpoints().at(-1)
    : (config.resume.step ?? checkpoints().at(-1))
  : 0
if (resume && !checkpoints().includes(from)) {
  say(`There is no checkpoint of step ${from}.`)
  process.exit(1)
}

const group = orchestrator.group_size
const interval = config.ckpt?.interval
const run = runFolder(output, config, {
  ...{ tasks: orchestrator.batch_size / group, group, interval },
  environment: orchestrator.train.source[0].env.taskset.id,
})

let asked = false
process.on('SIGTERM', () => {
  asked = true
})
/** @param {number} ms */
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

say(
  `Starting ${config.run.name}, from step ${from} of ${config.max_steps}; ${process.env.CANARY ? 'a secret is there' : 'no secret'}`,
)
run.log('inference', 'serving')
// A program may print what it was given.
const tells = faults.tell ? ` ${process.env.CANARY}` : ''
if (tells) {
  say(`telling${tells}`)
  run.log('trainer', `telling${tells}`)
}
for (let step = from + 1; step <= config.max_steps; step++) {
  while (step === config.max_steps && faults.lastStepAfter && !existsSync(faults.lastStepAfter)) await wait(100)
  const began = Date.now()
  run.rollOut(step, (answer) => answer + tells)
  await wait(pace / 2)
  run.orchestrated(step)
  if (faults.dieAt === step && faults.attempt === run.attempt) {
    say(`trainer exited with code 1${tells}`)
    await wait(faults.linger ?? 60_000)
    process.exit(1)
  }
  await wait(pace / 2)
  run.trained(step, { seconds: (Date.now() - began) / 1000, waited: pace / 2000 })
  run.broadcast(step)
  if ((interval && step % interval === 0) || (config.ckpt && step === config.max_steps)) run.save(step)
  if (asked) {
    run.save(step)
    say(`Asked to end; saved at step ${step}`)
    process.exit(143)
  }
}
say('RL training finished!')
