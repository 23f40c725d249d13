// A run in words, from its events: a line per step and per evaluation, and what is going on at the moment with the time
// that is left. Knows no terminal.

import type { Phase, RunDescription, RunEvent } from '../workers/protocol.ts'

const DOING: Record<Phase, string> = { ask: 'asking', answer: 'answering', judge: 'judging', learn: 'learning' }
/** Of so many steps the mean duration is taken for those to come. */
const RECENT_STEPS = 8

export class RunReport {
  #write: (line: string) => void
  #status: (line: string) => void
  #description: RunDescription | null = null
  #interval: number | null = null
  #step = 0
  #durations: number[] = []
  #evaluationSeconds: number | null = null
  #reward: number | undefined
  #heldOut: number | undefined
  #kernels: Extract<RunEvent, { kind: 'kernels' }> | null = null

  constructor(write: (line: string) => void, status: (line: string) => void) {
    this.#write = write
    this.#status = status
  }

  say(line: string): void {
    this.#write(line)
  }

  hear(event: RunEvent): void {
    if (event.kind === 'started') this.#begin(event)
    else if (event.kind === 'step') this.#tellStep(event)
    else if (event.kind === 'evaluation') this.#tellEvaluation(event)
    else if (event.kind === 'fetch') this.#tellFetch(event)
    else if (event.kind === 'phase') this.#tellNow(event.note ? event.note.toLowerCase() : DOING[event.phase])
    else if (event.kind === 'progress') this.#tellProgress(event)
    else if (event.kind === 'kernels') this.#kernels = event
    else if (event.kind === 'note')
      this.#write(event.level === 'info' ? event.sentence : `${event.level}: ${event.sentence}`)
    else if (event.kind === 'state' && event.reason) this.#write(event.reason)
  }

  /** The time of each kernel on the GPU, where it was asked for. */
  tellKernels(): void {
    if (!this.#kernels?.kernels.length) return
    const { since, step, seconds, kernels, untimed } = this.#kernels
    const sum = kernels.reduce((total, { milliseconds }) => total + milliseconds, 0)
    const share = (milliseconds: number) => `${((100 * milliseconds) / sum).toFixed(1).padStart(5)} %`
    this.#write(
      `Steps ${since + 1} to ${step}: ${(sum / 1000).toFixed(2)} s in kernels of ${seconds.toFixed(2)} s. ` +
        'Timing costs time itself: the sums are a little high.',
    )
    for (const { name, dispatches, milliseconds } of kernels) {
      const time = milliseconds.toFixed(2).padStart(10)
      this.#write(`${share(milliseconds)} ${time} ms ${String(dispatches).padStart(9)} × ${name}`)
    }
    if (untimed > 0) this.#write(`${untimed} dispatches ran without a time: too many were on their way at once.`)
  }

  #begin({ description, config }: Extract<RunEvent, { kind: 'started' }>): void {
    const { model, device, step, maxSteps } = description
    this.#description = description
    this.#interval = config.eval.interval
    this.#step = step
    this.#write(
      `${model.name}: ${count(model.parameters)} parameters, ${count(model.trainableParameters)} of them trained, ` +
        `on ${device.adapter} (${device.backend}). Steps ${step + 1} to ${maxSteps}.`,
    )
  }

  #tellStep({ step, metrics, seconds, note }: Extract<RunEvent, { kind: 'step' }>): void {
    this.#step = step
    this.#durations = [...this.#durations, seconds.total].slice(-RECENT_STEPS)
    this.#reward = metrics['reward/mean']
    const parts = [
      `step ${String(step).padStart(4)}`,
      `reward ${fixed(this.#reward)} ± ${fixed(metrics['reward/std'])}`,
      `entropy ${fixed(metrics['entropy/all/mean'])}`,
      `length ${fixed(metrics['num_output_tokens/mean'], 1)}`,
      `gradient ${fixed(metrics['optim/grad_norm'], 3)}`,
      `${seconds.total.toFixed(1)} s`,
    ]
    this.#write(parts.join('  ') + (note ? `  ${note}` : ''))
  }

  #tellEvaluation({ step, metrics, seconds }: Extract<RunEvent, { kind: 'evaluation' }>): void {
    this.#evaluationSeconds = seconds
    this.#heldOut = metrics['eval/reward/mean']
    this.#write(`step ${String(step).padStart(4)}  held-out reward ${fixed(this.#heldOut)}`)
  }

  #tellProgress({ step, phase, done, total, tokensPerSecond }: Extract<RunEvent, { kind: 'progress' }>): void {
    const doing = step > this.#step ? DOING[phase] : 'evaluating'
    const rate = tokensPerSecond ? ` · ${Math.round(tokensPerSecond)} tokens/s` : ''
    this.#tellNow(`${doing} ${done}/${total}${rate}`)
  }

  #tellFetch({ file, doneBytes, totalBytes }: Extract<RunEvent, { kind: 'fetch' }>): void {
    const megabytes = (bytes: number) => (bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)
    const total = totalBytes === null ? '' : ` of ${megabytes(totalBytes)}`
    this.#status(`fetching ${file}: ${megabytes(doneBytes)}${total} MB`)
  }

  #tellNow(doing: string): void {
    if (!this.#description) return
    const { maxSteps } = this.#description
    const parts = [`step ${Math.min(this.#step + 1, maxSteps)}/${maxSteps}`, doing]
    if (this.#reward !== undefined) parts.push(`reward ${fixed(this.#reward)}`)
    if (this.#heldOut !== undefined) parts.push(`held-out ${fixed(this.#heldOut)}`)
    const left = this.#secondsLeft(maxSteps)
    if (left !== null) parts.push(`${duration(left)} left`)
    this.#status(parts.join(' · '))
  }

  #secondsLeft(maxSteps: number): number | null {
    if (this.#durations.length === 0) return null
    const mean = this.#durations.reduce((sum, seconds) => sum + seconds, 0) / this.#durations.length
    const evaluations =
      this.#interval === null ? 0 : Math.ceil(maxSteps / this.#interval) - Math.floor(this.#step / this.#interval)
    return (maxSteps - this.#step) * mean + evaluations * (this.#evaluationSeconds ?? 0)
  }
}

function fixed(value: number | undefined, decimals = 2): string {
  return value === undefined ? '–' : value.toFixed(decimals)
}

function count(value: number): string {
  if (value >= 1e9) return `${(value / 1e9).toFixed(1)} G`
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)} M`
  if (value >= 1e3) return `${Math.round(value / 1e3)} k`
  return String(value)
}

export function duration(seconds: number): string {
  const whole = Math.max(1, Math.round(seconds))
  if (whole < 60) return `${whole} s`
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`
}
