// What the reader looks at: a step, a group of it, a rollout of that, a token of that. Follows the newest step until
// something is chosen, so that nothing changes under a reading eye.

import type { GroupRecord, RolloutRecord } from '../../workers/protocol.ts'
import type { Run, Split } from './run.svelte.ts'

export class Selection {
  #run: () => Run | null
  #split = $state<Split>('train')
  #pinned = $state<number | null>(null)
  /** null until chosen: meanwhile the group that has most to teach is shown. */
  #group = $state<number | null>(null)
  #attempt = $state<number | null>(null)
  #token = $state<number | null>(null)

  constructor(run: () => Run | null) {
    this.#run = run
  }

  get split() {
    return this.#split
  }
  get token() {
    return this.#token
  }

  /** Steps that can be looked at in this split, increasing. */
  readonly steps = $derived.by(() => this.#run()?.sampleSteps[this.#split] ?? [])
  readonly following = $derived.by(() => this.#pinned === null)
  /** null before the first samples. */
  readonly step = $derived.by(() => this.#pinned ?? this.steps.at(-1) ?? null)
  /** null while they are read from storage. */
  readonly groups = $derived.by((): GroupRecord[] | null =>
    this.step === null ? [] : (this.#run()?.samples(this.step, this.#split) ?? null),
  )
  readonly groupIndex = $derived.by(() => {
    const groups = this.groups ?? []
    return Math.min(this.#group ?? mostTelling(groups), Math.max(0, groups.length - 1))
  })
  readonly group = $derived.by(() => this.groups?.[this.groupIndex] ?? null)
  /** Best first; errored ones last. */
  readonly rollouts = $derived.by((): RolloutRecord[] => (this.group ? ranked(this.group.rollouts) : []))
  readonly rollout = $derived.by(
    () => this.rollouts.find((rollout) => rollout.attempt === this.#attempt) ?? this.rollouts[0] ?? null,
  )

  /** Goes back to whatever is newest. */
  follow(): void {
    this.#pinned = null
    this.#group = null
    this.#attempt = null
    this.#token = null
  }

  /** The nearest step that has samples. */
  chooseStep(step: number): void {
    const nearest = this.steps.reduce<number | null>(
      (best, at) => (best === null || Math.abs(at - step) < Math.abs(best - step) ? at : best),
      null,
    )
    this.#pinned = nearest
    this.#token = null
  }

  moveStep(by: number): void {
    const { steps } = this
    if (this.step === null || !steps.length) return
    const at = Math.min(steps.length - 1, Math.max(0, steps.indexOf(this.step) + by))
    this.#pinned = steps[at]
    this.#token = null
  }

  chooseSplit(split: Split): void {
    if (split === this.#split) return
    this.#split = split
    this.#pinned = null
    this.#group = null
    this.#attempt = null
    this.#token = null
  }

  chooseGroup(index: number, attempt: number | null = null): void {
    const count = this.groups?.length ?? 0
    this.#hold()
    this.#group = Math.min(Math.max(0, index), Math.max(0, count - 1))
    this.#attempt = attempt
    this.#token = null
  }

  chooseRollout(attempt: number): void {
    this.#hold()
    this.#attempt = attempt
    this.#token = null
  }

  moveRollout(by: number): void {
    const { rollouts, rollout } = this
    if (!rollout) return
    const at = Math.min(rollouts.length - 1, Math.max(0, rollouts.indexOf(rollout) + by))
    this.chooseRollout(rollouts[at].attempt)
  }

  chooseToken(index: number | null): void {
    if (index !== null) this.#hold()
    this.#token = index
  }

  /** Jumps to one rollout wherever it stands: used by histories. */
  show(split: Split, step: number, group: number, attempt: number): void {
    this.#split = split
    this.#pinned = step
    this.#group = group
    this.#attempt = attempt
    this.#token = null
  }

  #hold(): void {
    if (this.#pinned === null) this.#pinned = this.step
    this.#group ??= this.groupIndex
  }
}

/** The group whose rewards differ most, among those scored again after the update where there are any. */
function mostTelling(groups: GroupRecord[]): number {
  const rescored = groups.map(({ rollouts }) => rollouts.some(({ tokens }) => tokens?.logpAfter))
  let best = Math.max(0, rescored.indexOf(true))
  let widest = 0
  groups.forEach(({ rollouts }, i) => {
    const rewards = rollouts.flatMap(({ reward }) => (reward === null ? [] : [reward]))
    const spread = rewards.length ? Math.max(...rewards) - Math.min(...rewards) : 0
    if (spread > widest && rescored[i] === rescored[best]) [best, widest] = [i, spread]
  })
  return best
}

function ranked(rollouts: RolloutRecord[]): RolloutRecord[] {
  return [...rollouts].sort((a, b) => (b.reward ?? -Infinity) - (a.reward ?? -Infinity) || a.attempt - b.attempt)
}
