// A run in a tab, started as the page starts it: a trainer in its worker, an environment in another, runs in storage.

import type { RunConfig } from '../../configs/schema.ts'
import { type OpenTrainer, openRuns, openTrainer } from '../../workers/host.browser.ts'
import type { RunEvent } from '../../workers/protocol.ts'

let opened: OpenTrainer | undefined
const events: RunEvent[] = []

export async function start(run: string, config: RunConfig, resume: boolean) {
  opened = await openTrainer()
  events.length = 0
  await opened.trainer.subscribe((event) => events.push(event))
  return opened.trainer.start({ run, config, resume, source: 'tab' })
}

/** Plays until `steps` steps of this start are done, or the run ends; does not pause. */
export async function playUntil(steps: number): Promise<string> {
  await opened?.trainer.play()
  for (;;) {
    const state = events.findLast((event) => event.kind === 'state')
    if (state && ['finished', 'failed', 'stopped'].includes(state.state)) return `${state.state} ${state.reason ?? ''}`
    if (events.filter((event) => event.kind === 'step').length >= steps) return 'playing'
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

export async function pause(): Promise<void> {
  await opened?.trainer.pause()
}

export async function adapterFiles(): Promise<string[]> {
  return ((await opened?.trainer.exportAdapter()) ?? []).map(({ name, bytes }) => `${name} ${bytes.length}`)
}

export async function stop(): Promise<void> {
  await opened?.trainer.stop()
  opened?.close()
}

export async function savedStep(run: string): Promise<number | null> {
  return (await (await openRuns()).files(run)).savedStep
}

/** What this start has told so far. */
export async function told(): Promise<{ seqs: number[]; steps: number[]; tokens: string[]; notes: string[] }> {
  return {
    seqs: events.map(({ seq }) => seq),
    steps: events.filter((event) => event.kind === 'step').map(({ step }) => step),
    tokens: events
      .filter((event) => event.kind === 'samples')
      .flatMap(({ step, groups }) =>
        groups.flatMap(({ task, rollouts }) =>
          rollouts.map(
            ({ attempt, tokens }) => `${step}/${task}/${attempt} ${tokens?.text.join('|')} ${tokens?.logMu}`,
          ),
        ),
      ),
    notes: events.filter((event) => event.kind === 'note').map(({ sentence }) => sentence),
  }
}

/** The steps that storage holds of a run, in order. */
export async function storedSteps(run: string): Promise<number[]> {
  const stored = await (await openRuns()).events(run)
  return stored.filter((event) => event.kind === 'step').map(({ step }) => step)
}
