// What this browser can compute on, found out without opening a device: only an adapter is asked for its name. Once a
// run has started, its own description replaces the guess.

import type { RunConfig } from '../../configs/schema.ts'
import type { DeviceDescription } from '../../workers/protocol.ts'

const PACE = 'rollout-lab/pace'

export type Standing =
  | 'asking'
  /** A GPU through WebGPU. */
  | 'fast'
  /** WebGPU, but computed by the processor. */
  | 'software'
  /** A page that is not served securely has no WebGPU, whatever the browser. */
  | 'insecure'
  /** The browser has none, or it is switched off. */
  | 'missing'
  /** The browser has it, the machine offers no adapter. */
  | 'no adapter'

export class Device {
  #standing = $state<Standing>('asking')
  #adapter = $state<string | null>(null)
  #features = $state.raw<string[]>([])
  #limitBytes = $state<number | null>(null)
  #description = $state.raw<DeviceDescription | null>(null)
  #accepted = $state(false)
  /** Seconds per rollout, by what sets them. */
  #pace = $state.raw<Record<string, number>>(rememberedPace())

  get standing() {
    return this.#standing
  }
  /** The adapter's name where the browser tells it. */
  get adapter() {
    return this.#adapter
  }
  get features() {
    return this.#features
  }
  /** Largest single buffer of the adapter, bytes. */
  get limitBytes() {
    return this.#limitBytes
  }
  /** What the trainer really got; null before the first run. */
  get description() {
    return this.#description
  }
  /** A slower backend was agreed to in this visit. */
  get accepted() {
    return this.#accepted
  }

  /** Whether training is quick here: a graphics adapter through WebGPU. */
  readonly fast = $derived.by(() =>
    this.#description
      ? this.#description.backend === 'webgpu' && !this.#description.software
      : this.#standing === 'fast',
  )

  readonly label = $derived.by(() => {
    if (this.#description) return deviceLabel(this.#description)
    if (this.#standing === 'asking') return 'Looking for a GPU'
    if (this.#standing === 'fast')
      return `${this.#adapter ?? 'GPU'} · WebGPU${this.#features.includes('shader-f16') ? ' f16' : ''}`
    if (this.#standing === 'software') return `${this.#adapter ?? 'Processor'} · software WebGPU`
    return 'No WebGPU here'
  })

  async probe(): Promise<void> {
    if (!isSecureContext) {
      this.#standing = 'insecure'
      return
    }
    if (!('gpu' in navigator) || !navigator.gpu) {
      this.#standing = 'missing'
      return
    }
    const adapter =
      (await navigator.gpu.requestAdapter({ powerPreference: 'high-performance' }).catch(() => null)) ??
      (await navigator.gpu.requestAdapter().catch(() => null))
    if (!adapter) {
      this.#standing = 'no adapter'
      return
    }
    const { vendor, architecture, description, device } = adapter.info
    this.#adapter = description || [vendor, architecture].filter(Boolean).join(' ') || null
    this.#features = [...adapter.features].sort()
    this.#limitBytes = adapter.limits.maxBufferSize
    const software = /swiftshader|llvmpipe|lavapipe|warp|basic render/i.test(
      `${vendor} ${architecture} ${description} ${device}`,
    )
    this.#standing = software ? 'software' : 'fast'
  }

  learn(description: DeviceDescription): void {
    this.#description = description
  }

  /** Seconds of a step as earlier runs in this browser suggest, by rollouts; null where none was like it. */
  expected(config: RunConfig): number | null {
    const known = this.#pace[paceKey(config)]
    return known === undefined ? null : known * config.batch_size
  }

  /** What a run measured, for the next one's forecast. */
  remember(config: RunConfig, secondsPerStep: number): void {
    this.#pace = { ...this.#pace, [paceKey(config)]: secondsPerStep / config.batch_size }
    try {
      localStorage.setItem(PACE, JSON.stringify(this.#pace))
    } catch {
      // Then the next visit measures anew.
    }
  }

  accept(): void {
    this.#accepted = true
  }

  /** Whether this config would land on a slow backend that nobody asked for. */
  isSlowFor(config: RunConfig): boolean {
    return config.browser.backend === 'auto' && this.#standing !== 'fast' && this.#standing !== 'asking'
  }
}

export function deviceLabel(device: DeviceDescription): string {
  const backend = backendName(device)
  return device.adapter === backend ? backend : `${device.adapter} · ${backend}`
}

export function backendName({ backend, software, features }: DeviceDescription): string {
  if (backend === 'webgpu')
    return `${software ? 'software ' : ''}WebGPU${features.includes('shader-f16') ? ' f16' : ''}`
  return { webgl: 'WebGL', wasm: 'WebAssembly', cpu: 'JavaScript', cuda: 'CUDA' }[backend]
}

function paceKey({ model, browser, sampling, lora }: RunConfig): string {
  return [model, browser.backend, sampling.max_tokens, lora.r].join(' ')
}

function rememberedPace(): Record<string, number> {
  try {
    return JSON.parse(localStorage.getItem(PACE) ?? '{}')
  } catch {
    return {}
  }
}
