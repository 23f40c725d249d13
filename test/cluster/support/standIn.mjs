// Stands in for prime-rl's `rl` command: takes the same command line and config, and writes the same files at the same
// pace, so that everything but the GPUs is real. Faults are read from `faults.json` of the project folder.

import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'

const { parse } = createRequire(String(process.env.STAND_IN_ROOT))('smol-toml')
const args = process.argv.slice(2)
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

for (const folder of ['configs', 'logs', 'rollouts', 'broadcasts', 'checkpoints'])
  mkdirSync(join(output, folder), { recursive: true })
writeFileSync(join(output, 'configs/rl.json'), JSON.stringify(config))
const attempt = 1 + readdirSync(join(output, 'logs')).filter((name) => name.startsWith('attempt_')).length
const logs = join(output, 'logs', `attempt_${attempt}`)
mkdirSync(logs)
rmSync(join(output, 'logs/latest'), { force: true })
symlinkSync(`attempt_${attempt}`, join(output, 'logs/latest'))
/** @param {string} component @param {string} text */
const log = (component, text) => appendFileSync(join(logs, `${component}.log`), `${new Date().toISOString()} ${text}\n`)
/** @param {number | null} step @param {Record<string, number>} metrics @param {string} producer */
const row = (step, metrics, producer) =>
  appendFileSync(
    join(output, 'metrics.jsonl'),
    `${JSON.stringify({ step, time: Date.now() / 1000, ...metrics, producer })}\n`,
  )

const group = orchestrator.group_size
const tasks = orchestrator.batch_size / group
const environment = orchestrator.train.source[0].env.taskset.id

/** @param {number} step */
function episodes(step) {
  return Array.from({ length: tasks * group }, (_, i) => {
    const task = (step - 1) * tasks + Math.floor(i / group)
    const text = `text ${task}`
    const reward = Math.min(1, 0.2 + 0.05 * step + 0.1 * (i % group))
    /** @param {number | null} parent @param {object} message @param {boolean} sampled @param {number[]} ids */
    const node = (parent, message, sampled, ids) => ({
      ...{ parent, message, sampled, timestamp: Date.now() / 1000, token_ids: ids, mask: ids.map(() => sampled) },
      ...{
        is_content: [],
        logprobs: sampled ? ids.map(() => -0.5) : [],
        advantages: sampled ? ids.map(() => reward - 0.4) : null,
      },
    })
    const trace = {
      ...{ version: 1, id: `${step}-${i}`, run: { type: 'train', id: 'run', step } },
      task: { type: 'ReverseText', data: { idx: task, prompt: text, answer: [...text].reverse().join('') } },
      agent: { name: 'agent', trainable: true, config: {} },
      nodes: [
        node(null, { role: 'user', content: text }, false, [1, 2, 3]),
        node(0, { role: 'assistant', content: `answer ${i}` }, true, [4, 5, 6, 7]),
      ],
      calls: [{ node: 1, finish_reason: 'stop' }],
      rewards: { lcs: { score: reward, weight: 1 } },
      ...{ metrics: { length: 4 }, info: {}, is_completed: true, ok: true, stop_condition: null, errors: [] },
    }
    return {
      id: `e${step}-${i}`,
      env: { id: environment },
      group: { id: `g${task}` },
      ok: true,
      errors: [],
      traces: [trace],
    }
  })
}

/** @param {number} step */
function save(step) {
  const folder = join(output, 'checkpoints', `step_${step}`)
  mkdirSync(join(folder, 'trainer'), { recursive: true })
  mkdirSync(join(folder, 'orchestrator'), { recursive: true })
  writeFileSync(join(folder, 'trainer/__0_0.distcp'), Buffer.alloc(1024))
  writeFileSync(join(folder, 'trainer/.metadata'), 'metadata')
  writeFileSync(join(folder, 'orchestrator/progress.pt.partial'), 'progress')
  renameSync(join(folder, 'orchestrator/progress.pt.partial'), join(folder, 'orchestrator/progress.pt'))
  log('trainer', `Saved checkpoint of step ${step}`)
}

/** @param {number} step */
function broadcast(step) {
  const folder = join(output, 'broadcasts', `step_${step}`)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'adapter_config.json'), JSON.stringify({ peft_type: 'LORA', r: 8, step }))
  writeFileSync(join(folder, 'adapter_model.safetensors'), Buffer.alloc(256, step))
  writeFileSync(join(folder, 'STABLE'), '')
  const interval = config.ckpt?.interval ?? Number.POSITIVE_INFINITY
  if (step > 1 && (step - 1) % interval !== 0)
    rmSync(join(output, 'broadcasts', `step_${step - 1}`), { recursive: true, force: true })
}

let asked = false
process.on('SIGTERM', () => {
  asked = true
})
/** @param {number} ms */
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

say(
  `Starting ${config.run.name}, from step ${from} of ${config.max_steps}; ${process.env.CANARY ? 'a secret is there' : 'no secret'}`,
)
log('inference', 'serving')
for (let step = from + 1; step <= config.max_steps; step++) {
  const began = Date.now()
  for (const kind of ['all', 'effective']) {
    const folder = join(output, 'rollouts', `step_${step}`, 'train', kind)
    mkdirSync(folder, { recursive: true })
    appendFileSync(
      join(folder, 'traces.jsonl'),
      `${episodes(step)
        .map((each) => JSON.stringify(each))
        .join('\n')}\n`,
    )
  }
  await wait(pace / 2)
  const reward = Math.min(1, 0.2 + 0.05 * step + 0.05 * (group - 1))
  row(
    step,
    {
      'train/agg/all/agent/reward/mean': reward,
      'train/agg/all/num_output_tokens/mean': 4,
      'progress/tokens': tasks * group * 7,
      'time/wait_for_policy': 0.01,
    },
    'orchestrator',
  )
  log('orchestrator', `Step ${step} | Reward ${reward}`)
  if (faults.dieAt === step && faults.attempt === attempt) {
    say(`trainer exited with code 1`)
    await wait(faults.linger ?? 60_000)
    process.exit(1)
  }
  await wait(pace / 2)
  row(
    step,
    {
      'loss/mean': -0.01 * step,
      'entropy/all/mean': 0.5,
      'mismatch_kl/all/mean': 1e-3,
      'optim/lr': 1e-4,
      'optim/grad_norm': 0.7,
      'perf/throughput': 1000,
      'time/step': (Date.now() - began) / 1000,
      'time/wait_for_batch': pace / 2000,
    },
    'trainer',
  )
  row(null, { 'inference/agg/num_requests_running/mean': 3 }, 'orchestrator')
  log('trainer', `Step ${step} | Loss ${-0.01 * step}`)
  broadcast(step)
  const interval = config.ckpt?.interval
  if ((interval && step % interval === 0) || (config.ckpt && step === config.max_steps)) save(step)
  if (asked) {
    save(step)
    say(`Asked to end; saved at step ${step}`)
    process.exit(143)
  }
}
say('RL training finished!')
