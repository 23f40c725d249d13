// A trainer on the table policy and the letters environment, with a real run folder: everything of a run but the network.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { z } from 'zod'
import { type RunConfig, runConfig } from '../../configs/schema.ts'
import type { RunEvent, TokenRecord } from '../../workers/protocol.ts'
import { NodeRunLibrary } from '../../workers/storage/node.ts'
import type { EnvironmentLink } from '../../workers/trainer/environmentGuard.ts'
import { type Learner, LocalTrainer, type TrainerServices } from '../../workers/trainer.ts'
import { type LettersOptions, LettersPort, SCRIPT, VOCABULARY } from './letters.ts'
import { LETTERS_RUN } from './lettersRun.ts'
import { type TableOptions, TablePolicy } from './tablePolicy.ts'

export type ConfigInput = z.input<typeof runConfig>

export function labConfig(overrides: ConfigInput = {}): RunConfig {
  return runConfig.parse({ ...LETTERS_RUN, ...overrides })
}

export interface LabOptions {
  letters?: LettersOptions
  table?: Partial<TableOptions>
  /** Instead of the letters in this thread. */
  connect?: () => Promise<EnvironmentLink>
  lost?: Promise<string>
  device?: Partial<Learner['device']>
  library?: TrainerServices['library']
  onPolicy?: (policy: TablePolicy) => void
}

export class Lab {
  readonly library: NodeRunLibrary
  readonly #root: string
  /** Of the newest trainer. */
  policy!: TablePolicy
  port!: LettersPort

  constructor(root: string) {
    this.#root = root
    this.library = new NodeRunLibrary(root)
  }

  static async open(): Promise<Lab> {
    return new Lab(await mkdtemp(join(tmpdir(), 'rollout-lab-')))
  }

  get root(): string {
    return this.#root
  }

  close(): Promise<void> {
    return rm(this.#root, { recursive: true, force: true })
  }

  trainer(options: LabOptions = {}): { trainer: LocalTrainer; events: RunEvent[] } {
    const events: RunEvent[] = []
    const trainer = new LocalTrainer({
      library: options.library ?? this.library,
      connectEnvironment:
        options.connect ??
        (async () => {
          this.port = new LettersPort(options.letters)
          return { port: this.port, gone: new Promise<string>(() => {}), close: () => {} }
        }),
      openLearner: async (config): Promise<Learner> => {
        const policy = new TablePolicy({ vocabulary: VOCABULARY, seed: config.seed, ...options.table })
        this.policy = policy
        options.onPolicy?.(policy)
        return {
          policy,
          script: SCRIPT,
          model: {
            name: 'table',
            parameters: policy.parameters,
            trainableParameters: policy.trainableParameters,
            layers: 0,
            width: 0,
            vocabulary: VOCABULARY,
            hash: 'table',
          },
          device: {
            backend: 'cpu',
            adapter: 'plain JavaScript',
            software: true,
            features: [],
            selfTest: { passed: true, sentence: 'Nothing to test.' },
            memoryLimitBytes: null,
            ...options.device,
          },
          choices: { slots: 4 },
          notes: [],
          lost: options.lost ?? new Promise(() => {}),
          export: async () => [{ name: 'adapter_model.safetensors', bytes: new Uint8Array(4) }],
          dispose: () => policy.dispose(),
        }
      },
    })
    trainer.subscribe((event) => events.push(event))
    return { trainer, events }
  }

  /** A whole run from its first to its last event. */
  async run(config: RunConfig, options: LabOptions & { run?: string; resume?: boolean } = {}): Promise<RunEvent[]> {
    const { trainer, events } = this.trainer(options)
    await trainer.start({ run: options.run ?? 'run', config, resume: options.resume })
    await trainer.play()
    await until(events, (event) => event.kind === 'state' && ['finished', 'failed', 'paused'].includes(event.state))
    return events
  }
}

/** Waits for an event after the run has begun to move. */
export async function until(events: RunEvent[], found: (event: RunEvent) => boolean): Promise<RunEvent> {
  for (;;) {
    const start = events.findIndex((event) => event.kind === 'state' && event.state === 'running')
    const event = start < 0 ? undefined : events.slice(start).find(found)
    if (event) return event
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
}

export function kinds<K extends RunEvent['kind']>(events: RunEvent[], kind: K): Extract<RunEvent, { kind: K }>[] {
  return events.filter((event) => event.kind === kind) as Extract<RunEvent, { kind: K }>[]
}

/** Every training token of a run in order, with what it was sampled with: `step/task/attempt: text log μ …`. */
export function trainingTokens(events: RunEvent[]): string[] {
  return kinds(events, 'samples')
    .filter(({ split }) => split === 'train')
    .flatMap(({ step, groups }) =>
      groups.flatMap(({ task, rollouts }) =>
        rollouts.map(({ attempt, tokens, reward }) => `${step}/${task}/${attempt} ${reward}: ${spelled(tokens)}`),
      ),
    )
}

function spelled(tokens: TokenRecord | null): string {
  return tokens ? tokens.text.map((text, i) => `${text}${tokens.logMu[i]}`).join(' ') : ''
}
