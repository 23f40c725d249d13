// Kernels for adapters that are software. tfjs's own products and row reductions share workgroup memory behind barriers,
// which a GPU wants and a processor pays for dearly (SwiftShader: 20 times on a product of 768 × 64 × 192). Here every
// invocation works alone: on a 4 × 4 tile of a product, on one row of a reduction.

import { tf } from './tfjs.ts'

type KernelParameters = Parameters<tf.KernelFunc>[0]

interface WebGPUBackendLike {
  runWebGPUProgram(program: object, inputs: tf.TensorInfo[], dtype: string, uniforms?: object[]): tf.TensorInfo
}

/** Takes the place of tfjs's kernels on the WebGPU backend; shapes that these do not fit still go to tfjs's. */
export function useSoftwareKernels(): void {
  replaceKernel('BatchMatMul', matmul)
  replaceKernel('Softmax', (parameters) => rowKernel(parameters, parameters.inputs.logits as tf.TensorInfo, 'softmax'))
  for (const [kernel, operation] of [
    ['Sum', 'sum'],
    ['Mean', 'mean'],
    ['Max', 'max'],
  ] as const) {
    replaceKernel(kernel, (parameters) => rowKernel(parameters, parameters.inputs.x as tf.TensorInfo, operation))
  }
}

/** `ours` answers null where it does not fit. */
function replaceKernel(kernelName: string, ours: (parameters: KernelParameters) => tf.TensorInfo | null): void {
  const theirs = tf.getKernel(kernelName, 'webgpu')
  tf.unregisterKernel(kernelName, 'webgpu')
  tf.registerKernel({
    kernelName,
    backendName: 'webgpu',
    kernelFunc: (parameters) => ours(parameters) ?? theirs.kernelFunc(parameters),
  })
}

// ── Products ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function matmul({ inputs, attrs, backend }: KernelParameters): tf.TensorInfo | null {
  const [a, b] = [inputs.a as tf.TensorInfo, inputs.b as tf.TensorInfo]
  const { transposeA, transposeB } = attrs as unknown as { transposeA: boolean; transposeB: boolean }
  const [rowsA, columnsA] = a.shape.slice(-2)
  const [rowsB, columnsB] = b.shape.slice(-2)
  const [M, K] = transposeA ? [columnsA, rowsA] : [rowsA, columnsA]
  const N = transposeB ? rowsB : columnsB
  const outer = a.shape.slice(0, -2)
  const batch = outer.reduce((product, n) => product * n, 1)
  const fits = N % 4 === 0 && K % 4 === 0 && (M % 4 === 0 || !transposeA) && batch <= 65535
  if (!fits || outer.join() !== b.shape.slice(0, -2).join()) return null
  const program = new LonelyMatmul([batch, M, N], transposeA, transposeB)
  const dimensions = [M, N, K].map((n) => ({ type: 'int32', data: [n] }))
  const out = (backend as unknown as WebGPUBackendLike).runWebGPUProgram(program, [a, b], 'float32', dimensions)
  return { ...out, shape: [...outer, M, N] }
}

/** C [batch, M, N] = A · B, operands as vec4 along their last axis. The sum over K runs upwards, whatever M is. */
class LonelyMatmul {
  variableNames = ['A', 'B']
  uniforms = 'dimM : i32, dimN : i32, dimK : i32,'
  workgroupSize: [number, number, number] = [16, 4, 1]
  dispatchLayout = { x: [2], y: [1], z: [0] }
  dispatch: [number, number, number]
  outputComponent = 4
  variableComponents = [4, 4]
  shaderKey: string

  constructor(
    readonly outputShape: [number, number, number],
    readonly transposeA: boolean,
    readonly transposeB: boolean,
  ) {
    const [batch, M, N] = outputShape
    this.dispatch = [Math.ceil(N / 64), Math.ceil(M / 16), batch]
    this.shaderKey = `lonelyMatmul_${transposeA}_${transposeB}`
  }

  getUserCode(): string {
    // `at`'s column i is row 4·row+i of A at k … k+3; `bt`'s column i is row k+i of B.
    const four = (buffer: string, index: (i: number) => string) =>
      `mat4x4<f32>(${[0, 1, 2, 3].map((i) => `${buffer}[${index(i)}]`).join(', ')})`
    const at = this.transposeA
      ? `transpose(${four('A', (i) => `aBase + (4 * k + ${i}) * (uniforms.dimM / 4) + row`)})`
      : four('A', (i) => `aBase + min(4 * row + ${i}, last) * k4 + k`)
    const bt = this.transposeB
      ? `transpose(${four('B', (i) => `bBase + (4 * col + ${i}) * k4 + k`)})`
      : four('B', (i) => `bBase + (4 * k + ${i}) * n4 + col`)
    return `
      fn main() {
        let last = uniforms.dimM - 1; let n4 = uniforms.dimN / 4; let k4 = uniforms.dimK / 4;
        let col = i32(globalId.x); let row = i32(globalId.y); let batch = i32(globalId.z);
        if (col >= n4 || 4 * row > last) { return; }
        let aBase = batch * uniforms.dimM * k4;
        let bBase = batch * uniforms.dimN * k4;
        var c = array<vec4<f32>, 4>();
        for (var k = 0; k < k4; k = k + 1) {
          let at = ${at};
          let bt = ${bt};
          c[0] = c[0] + bt * at[0]; c[1] = c[1] + bt * at[1]; c[2] = c[2] + bt * at[2]; c[3] = c[3] + bt * at[3];
        }
        let out = (batch * uniforms.dimM + 4 * row) * n4 + col;
        result[out] = c[0];
        if (4 * row + 1 <= last) { result[out + n4] = c[1]; }
        if (4 * row + 2 <= last) { result[out + 2 * n4] = c[2]; }
        if (4 * row + 3 <= last) { result[out + 3 * n4] = c[3]; }
      }`
  }
}

// ── Rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

type RowOperation = 'sum' | 'mean' | 'max' | 'softmax'

function rowKernel(
  { attrs, backend }: KernelParameters,
  x: tf.TensorInfo,
  operation: RowOperation,
): tf.TensorInfo | null {
  const rank = x.shape.length
  const { axis, dim, keepDims } = attrs as unknown as { axis?: number | number[]; dim?: number; keepDims?: boolean }
  const axes = [axis ?? dim ?? -1].flat().map((a) => (a < 0 ? a + rank : a))
  const columns = x.shape[rank - 1]
  const rows = x.shape.slice(0, -1).reduce((product, n) => product * n, 1)
  // One long row is better shared among many invocations.
  if (x.dtype !== 'float32' || axes.length !== 1 || axes[0] !== rank - 1 || rows < 8) return null
  const program = new LonelyRow(operation, rows, columns)
  const width = [
    { type: 'int32', data: [columns] },
    { type: 'int32', data: [rows] },
  ]
  const out = (backend as unknown as WebGPUBackendLike).runWebGPUProgram(program, [x], 'float32', width)
  if (operation === 'softmax') return { ...out, shape: x.shape }
  return { ...out, shape: keepDims ? [...x.shape.slice(0, -1), 1] : x.shape.slice(0, -1) }
}

class LonelyRow {
  variableNames = ['X']
  uniforms = 'columns : i32, rows : i32,'
  workgroupSize: [number, number, number] = [16, 1, 1]
  dispatchLayout = { x: [0] }
  dispatch: [number, number, number]
  outputShape: number[]
  shaderKey: string

  constructor(
    readonly operation: RowOperation,
    rows: number,
    columns: number,
  ) {
    this.outputShape = [operation === 'softmax' ? rows * columns : rows]
    this.dispatch = [Math.ceil(rows / 16), 1, 1]
    this.shaderKey = `lonelyRow_${operation}`
  }

  getUserCode(): string {
    const largest = `
        var largest = X[base];
        for (var i = 1; i < uniforms.columns; i = i + 1) { largest = max(largest, X[base + i]); }`
    const total = `
        var total = 0.0;
        for (var i = 0; i < uniforms.columns; i = i + 1) { total = total + X[base + i]; }`
    const bodies: Record<RowOperation, string> = {
      sum: `${total} result[row] = total;`,
      mean: `${total} result[row] = total / f32(uniforms.columns);`,
      max: `${largest} result[row] = largest;`,
      softmax: `${largest}
        var total = 0.0;
        for (var i = 0; i < uniforms.columns; i = i + 1) { let e = exp(X[base + i] - largest); result[base + i] = e; total = total + e; }
        for (var i = 0; i < uniforms.columns; i = i + 1) { result[base + i] = result[base + i] / total; }`,
    }
    return `
      fn main(row : i32) {
        if (row >= uniforms.rows) { return; }
        let base = row * uniforms.columns;
        ${bodies[this.operation]}
      }`
  }
}
