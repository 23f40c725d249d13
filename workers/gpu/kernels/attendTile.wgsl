// What attention over packed rows is made of. A workgroup of 64 threads works on tiles of 32 × 32 pairs of tokens, each
// thread on 4 × 4: queries 4·ty + i, keys 4·tx + j. Tiles start at multiples of 32 from the start of their row, so that
// the order of every sum follows from the row alone. Operands pass through workgroup memory in chunks of WIDTH columns.
//
// A block of the table is (first token of the row, one past its last, first token, last token); the row is empty where
// the tokens are padding, and first > last where there is nothing.

const HEAD_VECTORS: u32 = HEAD_WIDTH / 4u;
const QK_STEP: u32 = (HEADS + KV_HEADS) * HEAD_VECTORS;
const QKV_STEP: u32 = QKV_STRIDE / 4u;
const OUT_STEP: u32 = OUT_STRIDE / 4u;
const VECTORS: u32 = WIDTH / 4u; // of a row in a chunk
const STEP: u32 = VECTORS + 1u; // keeps rows on different banks
const TILE: u32 = 32u;
const TILE_STEP: u32 = 9u;

var<workgroup> left: array<vec4f, LEFTS * TILE * STEP>; // by query
var<workgroup> right: array<vec4f, RIGHTS * TILE * STEP>; // by key, key 4·tx + j in row 8·j + tx
var<workgroup> pairs: array<vec4f, TILE * TILE_STEP>; // by query, four keys a vector

fn rowOfKey(key: u32) -> u32 {
  return (key % 4u) * 8u + key / 4u;
}

fn productOf(a: vec4f, b: vec4f, sum: f32) -> f32 {
  return fma(a.x, b.x, fma(a.y, b.y, fma(a.z, b.z, fma(a.w, b.w, sum))));
}

fn queryAt(token: u32, head: u32, vector: u32) -> vec4f {
  return qk[token * QK_STEP + head * HEAD_VECTORS + vector];
}

/** The products of one query with the keys 4·tx + j of a tile, one vector of each. */
fn products(q: vec4f, k0: vec4f, k1: vec4f, k2: vec4f, k3: vec4f, sum: vec4f) -> vec4f {
  return vec4f(productOf(q, k0, sum.x), productOf(q, k1, sum.y), productOf(q, k2, sum.z), productOf(q, k3, sum.w));
}

fn keyAt(token: u32, kvHead: u32, vector: u32) -> vec4f {
  return qk[token * QK_STEP + (HEADS + kvHead) * HEAD_VECTORS + vector];
}

fn valueAt(token: u32, kvHead: u32, vector: u32) -> vec4f {
  return qkv[token * QKV_STEP + (HEADS + KV_HEADS + kvHead) * HEAD_VECTORS + vector];
}
