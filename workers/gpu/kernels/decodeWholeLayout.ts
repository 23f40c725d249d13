// Where `decodeWhole` finds its numbers: all frozen weights in one buffer, all adapters in another, every matrix transposed
// to [K][N] in quads of four columns. Offsets are in 16 bytes, and multiples of 256 bytes.

export const WHOLE_PRODUCTS = ['qkv', 'o', 'gateUp', 'down'] as const
export type WholeProduct = (typeof WHOLE_PRODUCTS)[number]

export interface WholeShape {
  layers: number
  /** D as the norms count it. */
  columns: number
  /** D, H·d, H·d + 2·K·d and F as they are padded: multiples of 32. */
  width: number
  attended: number
  qkv: number
  ffn: number
  vocabulary: number
  heads: number
  kvHeads: number
  headWidth: number
  queryKeyNorm: boolean
  biased: boolean
  tied: boolean
  epsilon: number
  format: 'f32' | 'f16'
  /** Of the adapters of each product, padded to a multiple of 4; 0 for none. */
  ranks: Record<WholeProduct, number>
}

/** A matrix as the kernel reads it: K rows of `quads` quads. */
export interface WholeMatrix {
  offset: number
  K: number
  quads: number
}

export interface WholeLayer {
  stride: number
  inputNorm: number
  outputNorm: number
  queryNorm: number
  keyNorm: number
  bias: number
  products: Record<WholeProduct, WholeMatrix>
}

export interface WholeLayout {
  /** Offsets inside a layer; layer n begins at n · stride. */
  layer: WholeLayer
  finalNorm: number
  head: WholeMatrix
  /** The head itself where it is tied. */
  embedding: WholeMatrix
  /** Of the whole buffer. */
  size: number
  adapters: { stride: number; a: Record<WholeProduct, WholeMatrix>; b: Record<WholeProduct, WholeMatrix>; size: number }
}

/** Quads of columns that may be read past the end of the last matrix, and left alone. */
const SLACK = 1024

export function wholeWidths(shape: WholeShape, product: WholeProduct): { K: number; N: number } {
  return {
    qkv: { K: shape.width, N: shape.qkv },
    o: { K: shape.attended, N: shape.width },
    gateUp: { K: shape.width, N: 2 * shape.ffn },
    down: { K: shape.ffn, N: shape.width },
  }[product]
}

export function wholeLayout(shape: WholeShape): WholeLayout {
  const { layers, width, headWidth, qkv, ranks, format } = shape
  let end = 0
  const take = (quads: number) => {
    const offset = end
    end += Math.ceil(quads / 16) * 16
    return offset
  }
  const matrix = (K: number, N: number, packed = format): WholeMatrix => {
    const quads = Math.ceil(N / 4)
    return { offset: take((K * quads) / (packed === 'f16' ? 2 : 1)), K, quads }
  }
  const layer: Omit<WholeLayer, 'stride'> = {
    inputNorm: take(width / 4),
    outputNorm: take(width / 4),
    queryNorm: take(headWidth / 4),
    keyNorm: take(headWidth / 4),
    bias: take(qkv / 4),
    products: byProduct((product) => {
      const { K, N } = wholeWidths(shape, product)
      return matrix(K, N)
    }),
  }
  const stride = end
  end = stride * layers
  const finalNorm = take(width / 4)
  const head = matrix(width, shape.vocabulary)
  const embedding = shape.tied ? head : matrix(width, shape.vocabulary)
  const size = end + SLACK

  end = 0
  const a = byProduct((product) => matrix(wholeWidths(shape, product).K, ranks[product], 'f32'))
  const b = byProduct((product) => matrix(ranks[product], wholeWidths(shape, product).N, 'f32'))
  const adapters = { stride: end, a, b, size: end * layers + SLACK }
  return { layer: { stride, ...layer }, finalNorm, head, embedding, size, adapters }
}

function byProduct<T>(make: (product: WholeProduct) => T): Record<WholeProduct, T> {
  return Object.fromEntries(WHOLE_PRODUCTS.map((product) => [product, make(product)])) as Record<WholeProduct, T>
}

/**
 * The row of a product that stands in one column of the transposed matrix. Gate and up, which alternate row by row, alternate
 * quad by quad here, so that whoever adds a sum up has four gates and their four ups.
 */
export function rowOfColumn(product: WholeProduct | 'head', column: number): number {
  if (product !== 'gateUp') return column
  const quad = Math.floor(column / 4)
  return 8 * Math.floor(quad / 2) + 2 * (column % 4) + (quad % 2)
}
