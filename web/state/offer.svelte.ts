// What the server would make of the config: where it would run, how fast that is as measured, what would be different, and
// what leaves the browser. Asked for while somebody looks; begins nothing.

import type { RunConfig } from '../../configs/schema.ts'
import type { MeasurementView, Preview, TargetView } from '../../server/runs/views.ts'
import { json } from '../server/ask.ts'
import { answer, api } from '../server/client.ts'

export class Offer {
  /** Which of the server's engines. */
  target = $state('local')
  #targets = $state.raw<TargetView[]>([])
  #preview = $state.raw<Preview | null>(null)
  #measuring = $state<string | null>(null)
  #problem = $state<string | null>(null)

  get targets() {
    return this.#targets
  }
  get preview() {
    return this.#preview
  }
  /** The model that is being measured. */
  get measuring() {
    return this.#measuring
  }
  get problem() {
    return this.#problem
  }

  readonly chosen = $derived(this.#targets.find(({ target }) => target === this.target) ?? null)
  /** Sentences for what keeps this config from being taken. */
  readonly refusals = $derived.by(() => {
    const closed = this.chosen?.card.problem
    const preview = this.#preview
    return [
      ...(closed ? [closed] : []),
      ...(preview?.problems ?? []).map(({ sentence }) => sentence),
      ...(preview?.refusals ?? []),
    ]
  })
  /** False until the server has been asked about this config. */
  readonly takes = $derived(this.#preview?.target === this.target && this.chosen !== null && this.refusals.length === 0)
  /** Runs that go first. */
  readonly before = $derived.by(() => {
    const card = this.chosen?.card
    if (!card || card.maxRuns === null) return 0
    return Math.max(0, card.running + card.queued - card.maxRuns + 1)
  })
  /** `fast` is null until it has been measured. */
  readonly deviceLabel = $derived.by((): { fast: boolean | null; label: string } => {
    const newest = this.chosen?.measurements.toSorted((a, b) => b.at - a.at)[0]
    return newest
      ? { fast: ['webgpu', 'cuda'].includes(newest.backend), label: labelOf(newest) }
      : { fast: null, label: 'This server' }
  })

  measurementOf(model: string): MeasurementView | null {
    return this.chosen?.measurements.find((one) => one.model === model) ?? null
  }

  async look(config: RunConfig | null, signal?: AbortSignal): Promise<void> {
    try {
      const { targets } = await answer(api.targets.$get(undefined, { init: { signal } }))
      this.#targets = targets
      // Not every server computes by itself.
      if (targets.length > 0 && this.chosen === null) this.target = targets[0].target
      const asked = { init: json({ config, target: this.target }, { signal }) }
      this.#preview = config && ((await answer(api.runs.preview.$post(undefined, asked))) as Preview)
      this.#problem = null
    } catch (error) {
      if (signal?.aborted) return
      this.#preview = null
      this.#problem = error instanceof Error ? error.message : String(error)
    }
  }

  /** A short run of its own there, so that its pace is known before anything is begun. */
  async measure(model: string): Promise<void> {
    if (this.#measuring !== null) return
    this.#measuring = model
    try {
      await api.targets[':target'].measure.$post({ param: { target: this.target } }, { init: json({ model }) })
      await this.look(this.#preview?.config ?? null)
    } catch (error) {
      this.#problem = error instanceof Error ? error.message : String(error)
    }
    this.#measuring = null
  }
}

const BACKENDS: Record<string, string> = {
  webgpu: 'WebGPU',
  webgl: 'WebGL',
  wasm: 'WebAssembly',
  cpu: 'JavaScript',
  cuda: 'CUDA',
}

export function labelOf({ backend, adapter }: MeasurementView): string {
  const name = BACKENDS[backend] ?? backend
  return adapter === name ? name : `${adapter} · ${name}`
}
