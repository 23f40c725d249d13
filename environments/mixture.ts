// Which of several sources stands at a position of their mixture, as a pure function of the position: stride
// scheduling, so every prefix holds each source's share to within a few items, with no dice. Knows no environments.

export interface Slot {
  /** Which source. */
  source: number
  /** How many items this source gave before: the position within it. */
  position: number
}

export class Mixture {
  readonly #shares: number[]
  readonly #slots: Slot[] = []
  readonly #given: number[]

  /** Ratios are relative weights > 0. */
  constructor(ratios: readonly number[]) {
    const wrong = ratios.find((ratio) => !(ratio > 0 && Number.isFinite(ratio)))
    if (ratios.length === 0 || wrong !== undefined)
      throw new Error(`A mixture needs ratios above 0, got ${ratios.length === 0 ? 'none' : wrong}.`)
    const total = ratios.reduce((sum, ratio) => sum + ratio, 0)
    this.#shares = ratios.map((ratio) => ratio / total)
    this.#given = ratios.map(() => 0)
  }

  at(position: number): Slot {
    if (this.#shares.length === 1) return { source: 0, position }
    while (this.#slots.length <= position) this.#extend()
    return this.#slots[position]
  }

  /** Gives the next slot to the source furthest behind its share; of equals, the first. */
  #extend(): void {
    const next = this.#slots.length + 1
    let source = 0
    let furthest = -Infinity
    this.#shares.forEach((share, candidate) => {
      const behind = share * next - this.#given[candidate]
      if (behind > furthest + 1e-9) {
        furthest = behind
        source = candidate
      }
    })
    this.#slots.push({ source, position: this.#given[source]++ })
  }
}
