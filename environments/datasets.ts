// What is asked: finite rows or generators that never end, and the order in which they are drawn. The order is a pure
// function of (seed, split, position): nothing here counts what was drawn before.

import type { Message, Split } from './messages.ts'
import { hash32, RandomStream } from './random.ts'

/** As a data source gives it: a message list, or a question that becomes the user's message. */
export interface Row {
  prompt?: Message[]
  question?: string
  answer?: string
  /** An object, or one as JSON text. */
  info?: Record<string, unknown> | string
  task?: string
}

export interface Dataset {
  /** Number of rows; null for a generator that never ends. */
  readonly size: number | null
  /** Row `index`, 0 ≤ index < size. Only a generator that never ends looks at the seed. */
  row(index: number, seed: number): Row
}

export interface Place {
  /** The row; also its example id. */
  index: number
  /** How many times every row had been drawn before; 0 for a generator that never ends. */
  epoch: number
}

/** Finite rows, as they are. */
export function rowsOf(rows: readonly Row[]): Dataset {
  if (rows.length === 0) throw new Error('A dataset of no rows cannot be drawn from; give at least one row.')
  return { size: rows.length, row: (index) => rows[index] }
}

/** A generator that never ends: row `index` is drawn from a stream of its own, named by `name`, the seed and the index. */
export function generated(name: string, make: (random: RandomStream, index: number) => Row): Dataset {
  return { size: null, row: (index, seed) => make(new RandomStream(name, 'train', seed, index), index) }
}

/**
 * `size` rows with keys of their own, made when first asked for: for an evaluation set, or for a training set that is
 * seen more than once.
 */
export function generatedRows(
  name: string,
  { size, seed }: { size: number; seed: number },
  make: (random: RandomStream) => Row,
  key: (row: Row) => string = (row) => row.question ?? JSON.stringify(row.prompt),
): Dataset {
  let rows: Row[] | null = null
  return {
    size,
    row(index) {
      rows ??= distinctRows(new RandomStream(name, 'rows', seed), size, make, key, name)
      return rows[index]
    },
  }
}

function distinctRows(
  random: RandomStream,
  size: number,
  make: (random: RandomStream) => Row,
  key: (row: Row) => string,
  name: string,
): Row[] {
  const rows = new Map<string, Row>()
  const patience = 1000 * size
  for (let draw = 0; rows.size < size; draw++) {
    if (draw === patience)
      throw new Error(
        `${name}: ${size} different rows were asked for, but ${patience} draws gave only ${rows.size}; ask for fewer or widen the generator.`,
      )
    const row = make(random.fork(draw))
    if (!rows.has(key(row))) rows.set(key(row), row)
  }
  return [...rows.values()]
}

/**
 * True for about one key in eight, for ever: what a generator holds out for evaluation. Decided by the key alone, so no
 * training text, of whatever seed, length or mixture, can meet an evaluation of any other seed or length.
 */
export function heldOut(key: string): boolean {
  return hash32(key, HELD_OUT_SALT) % 8 === 0
}

const HELD_OUT_SALT = 0x68656c64

/** Draws until the key lies on the side that the split asks for. */
export function onSideOf(split: Split, make: () => string): string {
  while (true) {
    const key = make()
    if (heldOut(key) === (split === 'eval')) return key
  }
}

/** Finite rows parted by a seeded shuffle into training and evaluation, duplicates of a key dropped first. */
export function holdOut(
  rows: readonly Row[],
  { evalSize, seed = 0 }: { evalSize: number; seed?: number },
  key: (row: Row) => string = (row) => row.question ?? JSON.stringify(row.prompt),
): { train: Dataset; evaluation: Dataset } {
  const distinct = [...new Map([...rows].reverse().map((row) => [key(row), row])).values()].reverse()
  if (evalSize < 1 || evalSize >= distinct.length)
    throw new Error(`holdOut: evalSize must lie in 1 … ${distinct.length - 1} (different rows − 1), got ${evalSize}.`)
  const order = new RandomStream('hold out', seed).shuffled(distinct)
  return { train: rowsOf(order.slice(evalSize)), evaluation: rowsOf(order.slice(0, evalSize)) }
}

/**
 * The row at a position of a split's endless order. Training sees finite rows in a fresh shuffle each epoch; evaluation
 * sees them in their own order, so that its first n positions are always the same n tasks.
 */
export function placeAt(size: number | null, seed: number, split: Split, position: number): Place {
  if (size === null) return { index: position, epoch: 0 }
  const epoch = Math.floor(position / size)
  const within = position % size
  return { index: split === 'eval' ? within : permutation(size, seed, epoch)[within], epoch }
}

// The newest permutations, kept because neighbours in one batch ask for the same one.
const permutations = new Map<string, Uint32Array>()

function permutation(size: number, seed: number, epoch: number): Uint32Array {
  const key = `${size}/${seed}/${epoch}`
  let order = permutations.get(key)
  if (order === undefined) {
    order = Uint32Array.from(new RandomStream('order', size, seed, epoch).shuffled(Array(size).keys()))
    if (permutations.size >= 8) permutations.delete(permutations.keys().next().value!)
    permutations.set(key, order)
  }
  return order
}
