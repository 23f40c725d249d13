// C [N, R] = Σ_m P[m, n] · Q[m, r] over one chunk of rows, one part per chunk. A thread owns 4 × 4 results.

@group(0) @binding(0) var<storage, read> p: array<vec4f>;
@group(0) @binding(1) var<storage, read> q: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> parts: array<vec4f>;

const ROWS = 16u;
const PX = BN / 4u;
const QX = BR / 4u;
const THREADS = PX * QX;

var<workgroup> pTile: array<vec4f, ROWS * PX>;
var<workgroup> qTile: array<vec4f, ROWS * QX>;

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) tile: vec3u) {
  let n0 = tile.x * PX;
  let r0 = tile.y * QX;
  let tp = thread / QX;
  let tq = thread % QX;
  var c0 = vec4f();
  var c1 = vec4f();
  var c2 = vec4f();
  var c3 = vec4f();
  for (var stretch = 0u; stretch < CHUNK / ROWS; stretch++) {
    let m0 = tile.z * CHUNK + stretch * ROWS;
    for (var i = thread; i < ROWS * PX; i += THREADS) {
      let column = n0 + i % PX;
      pTile[i] = select(vec4f(), p[(m0 + i / PX) * (N / 4u) + min(column, N / 4u - 1u)], column < N / 4u);
    }
    for (var i = thread; i < ROWS * QX; i += THREADS) {
      let column = r0 + i % QX;
      qTile[i] = select(vec4f(), q[(m0 + i / QX) * (R / 4u) + min(column, R / 4u - 1u)], column < R / 4u);
    }
    workgroupBarrier();
    for (var m = 0u; m < ROWS; m++) {
      let a = pTile[m * PX + tp];
      let b = qTile[m * QX + tq];
      c0 = fma(vec4f(a.x), b, c0);
      c1 = fma(vec4f(a.y), b, c1);
      c2 = fma(vec4f(a.z), b, c2);
      c3 = fma(vec4f(a.w), b, c3);
    }
    workgroupBarrier();
  }
  if (n0 + tp < N / 4u && r0 + tq < R / 4u) {
    let at = tile.z * (N * R / 4u) + (n0 + tp) * R + r0 + tq;
    parts[at] = c0;
    parts[at + R / 4u] = c1;
    parts[at + 2u * (R / 4u)] = c2;
    parts[at + 3u * (R / 4u)] = c3;
  }
}
