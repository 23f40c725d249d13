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

fn keyAt(token: u32, kvHead: u32, vector: u32) -> vec4f {
  return qk[token * QK_STEP + (HEADS + kvHead) * HEAD_VECTORS + vector];
}

fn valueAt(token: u32, kvHead: u32, vector: u32) -> vec4f {
  return qkv[token * QKV_STEP + (HEADS + KV_HEADS + kvHead) * HEAD_VECTORS + vector];
}

// Chunk k of the 32 tokens from `first` into workgroup memory; past `last`, the last one again.

fn bringQueries(first: u32, last: u32, head: u32, k: u32, thread: u32) {
  for (var i = thread; i < TILE * VECTORS; i += 64u) {
    left[i / VECTORS * STEP + i % VECTORS] = queryAt(min(first + i / VECTORS, last), head, k * VECTORS + i % VECTORS);
  }
}

fn bringKeys(first: u32, last: u32, kvHead: u32, k: u32, thread: u32) {
  for (var i = thread; i < TILE * VECTORS; i += 64u) {
    let key = keyAt(min(first + i / VECTORS, last), kvHead, k * VECTORS + i % VECTORS);
    right[rowOfKey(i / VECTORS) * STEP + i % VECTORS] = key;
  }
}

fn bringValues(to: u32, first: u32, last: u32, kvHead: u32, k: u32, thread: u32) {
  for (var i = thread; i < TILE * VECTORS; i += 64u) {
    let value = valueAt(min(first + i / VECTORS, last), kvHead, k * VECTORS + i % VECTORS);
    right[to + rowOfKey(i / VECTORS) * STEP + i % VECTORS] = value;
  }
}

/** sum[i][j] += row 4·ty + i of `left` · row of key 4·tx + j of `right`, which start at `lefts` and `rights`. */
fn addProducts(sum: ptr<function, array<vec4f, 4u>>, lefts: u32, rights: u32, thread: u32) {
  let ty = thread / 8u;
  let tx = thread % 8u;
  for (var c = 0u; c < VECTORS; c++) {
    let r0 = right[rights + tx * STEP + c];
    let r1 = right[rights + (8u + tx) * STEP + c];
    let r2 = right[rights + (16u + tx) * STEP + c];
    let r3 = right[rights + (24u + tx) * STEP + c];
    // for i < FOUR
    {
      let l = left[lefts + (ty * 4u + $i) * STEP + c];
      (*sum)[$i] = vec4f(
        productOf(l, r0, (*sum)[$i].x),
        productOf(l, r1, (*sum)[$i].y),
        productOf(l, r2, (*sum)[$i].z),
        productOf(l, r3, (*sum)[$i].w),
      );
    }
    // end
  }
}

/** For a chunk of `right`: sum[4·c + i] += Σ over keys of pairs[4·ty + i][key] · vector tx + 8·c of the key's row. */
fn addByQuery(sum: ptr<function, array<vec4f, 4u * COLUMNS>>, thread: u32) {
  let ty = thread / 8u;
  let tx = thread % 8u;
  for (var n = 0u; n < 8u; n++) {
    // for i < FOUR
    let weights$i = pairs[(ty * 4u + $i) * TILE_STEP + n];
    // end
    // for c < COLUMNS
    {
      let column = min(tx + $c * 8u, VECTORS - 1u);
      // for j < FOUR
      {
        let row = right[($j * 8u + n) * STEP + column];
        // for i < FOUR
        (*sum)[$c * 4u + $i] = fma(vec4f(weights$i[$j]), row, (*sum)[$c * 4u + $i]);
        // end
      }
      // end
    }
    // end
  }
}
