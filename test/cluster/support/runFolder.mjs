// A run folder as prime-rl fills it: its rows of metrics, its rollouts, checkpoints, broadcasts and logs, without anybody
// who trains. The stand-in writes one; a writer of many writes many.

import { appendFileSync, mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * @typedef {object} RunFolderOptions
 * @property {number} tasks of a step
 * @property {number} group rollouts of a task
 * @property {string} environment
 * @property {number | undefined} interval of checkpoints
 * @property {number} [shift] added to numbers, so that runs can be told apart
 * @property {(path: string, text: string) => void} [append] how lines come into a file that grows
 */

/**
 * @param {string} output
 * @param {object} config what `configs/rl.json` holds
 * @param {RunFolderOptions} options
 */
export function runFolder(output, config, { tasks, group, environment, interval, shift = 0, append = appendFileSync }) {
  for (const folder of ['configs', 'logs', 'rollouts', 'broadcasts', 'checkpoints'])
    mkdirSync(join(output, folder), { recursive: true })
  writeFileSync(join(output, 'configs/rl.json'), JSON.stringify(config))
  const attempt = 1 + readdirSync(join(output, 'logs')).filter((name) => name.startsWith('attempt_')).length
  const logs = join(output, 'logs', `attempt_${attempt}`)
  mkdirSync(logs)
  rmSync(join(output, 'logs/latest'), { force: true })
  symlinkSync(`attempt_${attempt}`, join(output, 'logs/latest'))

  /** @param {string} component @param {string} text */
  const log = (component, text) => append(join(logs, `${component}.log`), `${new Date().toISOString()} ${text}\n`)
  /** @param {number | null} step @param {Record<string, number>} metrics @param {string} producer */
  const row = (step, metrics, producer) =>
    append(
      join(output, 'metrics.jsonl'),
      `${JSON.stringify({ step, time: Date.now() / 1000, ...metrics, producer })}\n`,
    )

  /** @param {number} step @param {(answer: string) => string} said */
  function episodes(step, said) {
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
          node(0, { role: 'assistant', content: said(`answer ${i}`) }, true, [4, 5, 6, 7]),
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

  return {
    attempt,
    log,

    /** @param {number} step @param {(answer: string) => string} [said] */
    rollOut(step, said = (answer) => answer) {
      for (const kind of ['all', 'effective']) {
        const folder = join(output, 'rollouts', `step_${step}`, 'train', kind)
        mkdirSync(folder, { recursive: true })
        const lines = episodes(step, said).map((each) => JSON.stringify(each))
        append(join(folder, 'traces.jsonl'), `${lines.join('\n')}\n`)
      }
    },

    /** The orchestrator's row. @param {number} step */
    orchestrated(step) {
      const reward = Math.min(1, 0.2 + 0.05 * step + 0.05 * (group - 1)) + shift
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
    },

    /** The trainer's row. @param {number} step @param {{ seconds: number, waited: number }} times */
    trained(step, { seconds, waited }) {
      row(
        step,
        {
          'loss/mean': -0.01 * step + shift,
          'entropy/all/mean': 0.5,
          'mismatch_kl/all/mean': 1e-3,
          'optim/lr': 1e-4,
          'optim/grad_norm': 0.7,
          'perf/throughput': 1000,
          'time/step': seconds,
          'time/wait_for_batch': waited,
        },
        'trainer',
      )
      row(null, { 'inference/agg/num_requests_running/mean': 3 }, 'orchestrator')
      log('trainer', `Step ${step} | Loss ${-0.01 * step + shift}`)
    },

    /** @param {number} step */
    broadcast(step) {
      const folder = join(output, 'broadcasts', `step_${step}`)
      mkdirSync(folder, { recursive: true })
      writeFileSync(join(folder, 'adapter_config.json'), JSON.stringify({ peft_type: 'LORA', r: 8, step }))
      writeFileSync(join(folder, 'adapter_model.safetensors'), Buffer.alloc(256, step))
      writeFileSync(join(folder, 'STABLE'), '')
      if (step > 1 && (step - 1) % (interval ?? Number.POSITIVE_INFINITY) !== 0)
        rmSync(join(output, 'broadcasts', `step_${step - 1}`), { recursive: true, force: true })
    },

    /** @param {number} step */
    save(step) {
      const folder = join(output, 'checkpoints', `step_${step}`)
      mkdirSync(join(folder, 'trainer'), { recursive: true })
      mkdirSync(join(folder, 'orchestrator'), { recursive: true })
      writeFileSync(join(folder, 'trainer/__0_0.distcp'), Buffer.alloc(1024))
      writeFileSync(join(folder, 'trainer/.metadata'), 'metadata')
      writeFileSync(join(folder, 'orchestrator/progress.pt.partial'), 'progress')
      renameSync(join(folder, 'orchestrator/progress.pt.partial'), join(folder, 'orchestrator/progress.pt'))
      log('trainer', `Saved checkpoint of step ${step}`)
    },
  }
}
