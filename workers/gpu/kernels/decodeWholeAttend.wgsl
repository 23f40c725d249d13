// Attention of every row over the cache of its slot. A unit is a row and CHUNK query heads of one key head; PARTS teams of
// LANES threads take its keys in turn, UNROLL at a time, each with its own online softmax; the teams are merged at the end.

const HEAD_STEP: u32 = HEAD_WIDTH / 4u;
const UNITS: u32 = ROWS * KV_HEADS * CHUNKS;
const LOWEST: f32 = -1e30f;

/** Of each team and head: the maximum, and the sum of weights under it. */
var<workgroup> partial: array<vec2f, UNITS * PARTS * CHUNK>;
var<workgroup> totals: array<f32, UNITS * CHUNK>;

fn cacheAt(layer: u32, row: u32, position: u32, kvHead: u32) -> u32 {
  return (((layer * SLOTS + slotOf[row]) * positionsOfSlot() + position) * KV_HEADS + kvHead) * HEAD_STEP;
}

/** Norms and turns queries and keys; keys and values go to the cache. */
fn place(layer: u32, thread: u32) {
  const HEADS_OF_ROW = HEADS + 2u * KV_HEADS;
  for (var i = thread; i < ROWS * HEADS_OF_ROW * PAIRS; i += THREADS) {
    let row = i / (HEADS_OF_ROW * PAIRS);
    let head = i / PAIRS % HEADS_OF_ROW;
    let pair = i % PAIRS;
    if (state[row].open != 0u) {
      let position = state[row].length - 1u;
      if (head < HEADS) {
        let q = queryPair(row, head, pair, position);
        let to = row * NARROW + head * HEAD_STEP + pair;
        narrow[to] = q.first;
        narrow[to + PAIRS] = q.second;
      } else {
        let kvHead = (head - HEADS) % KV_HEADS;
        let to = cacheAt(layer, row, position, kvHead) + pair;
        if (head < HEADS + KV_HEADS) {
          let k = keyPair(row, kvHead, pair, position);
          keys[to] = k.first;
          keys[to + PAIRS] = k.second;
        } else {
          let v = valuePair(row, kvHead, pair);
          values[to] = v.first;
          values[to + PAIRS] = v.second;
        }
      }
    }
  }
}

fn attend(layer: u32, frozen: u32, longest: u32, thread: u32) {
  if (QUERY_KEY_NORM && thread < HEAD_STEP) {
    queryNorm[thread] = vectorAt(frozen + QUERY_NORM + thread);
    keyNorm[thread] = vectorAt(frozen + KEY_NORM + thread);
  }
  workgroupBarrier();
  place(layer, thread);
  storageBarrier();
  workgroupBarrier();

  let inside = thread < UNITS * PARTS * LANES;
  let team = min(thread, UNITS * PARTS * LANES - 1u) / LANES;
  let lane = thread % LANES;
  let unit = team / PARTS;
  let part = team % PARTS;
  let row = unit / (KV_HEADS * CHUNKS);
  let kvHead = unit / CHUNKS % KV_HEADS;
  let firstHead = kvHead * GROUP + unit % CHUNKS * CHUNK;
  let count = select(0u, state[row].length, inside && state[row].open != 0u);
  let base = cacheAt(layer, row, 0u, kvHead) + lane;
  let last = max(count, 1u) - 1u;
  let query = row * NARROW + firstHead * HEAD_STEP + lane;

  var top: array<f32, CHUNK>;
  var sum: array<f32, CHUNK>;
  var mixed: array<vec4f, CHUNK * VECTORS>;
  // for g < CHUNK
  top[$g] = LOWEST;
  // end
  let blocks = (longest + PARTS * UNROLL - 1u) / (PARTS * UNROLL);
  for (var block = 0u; block < blocks; block++) {
    var k: array<vec4f, UNROLL * VECTORS>;
    var v: array<vec4f, UNROLL * VECTORS>;
    // for u < UNROLL
    {
      let from_ = base + min((block * UNROLL + $u) * PARTS + part, last) * KV_HEADS * HEAD_STEP;
      // for c < VECTORS
      k[$u * VECTORS + $c] = keys[from_ + $c * LANES];
      v[$u * VECTORS + $c] = values[from_ + $c * LANES];
      // end
    }
    // end
    // for g < CHUNK
    {
      var highest = top[$g];
      var score: array<f32, UNROLL>;
      // for u < UNROLL
      {
        var product = 0.0f;
        // for c < VECTORS
        product += dot(k[$u * VECTORS + $c], narrow[query + $g * HEAD_STEP + $c * LANES]);
        // end
        product = sumOfTeam(product, thread);
        score[$u] = select(LOWEST, product, (block * UNROLL + $u) * PARTS + part < count);
        highest = max(highest, score[$u]);
      }
      // end
      let scale = exp(top[$g] - highest);
      // for c < VECTORS
      mixed[$g * VECTORS + $c] *= scale;
      // end
      var added = 0.0f;
      // for u < UNROLL
      {
        let weight = select(0.0f, exp(score[$u] - highest), (block * UNROLL + $u) * PARTS + part < count);
        added += weight;
        // for c < VECTORS
        mixed[$g * VECTORS + $c] = fma(vec4f(weight), v[$u * VECTORS + $c], mixed[$g * VECTORS + $c]);
        // end
      }
      // end
      sum[$g] = fma(sum[$g], scale, added);
      top[$g] = highest;
    }
    // end
  }

  if (inside && lane == 0u) {
    // for g < CHUNK
    partial[(unit * CHUNK + $g) * PARTS + part] = vec2f(top[$g], sum[$g]);
    // end
  }
  workgroupBarrier();
  // for g < CHUNK
  {
    let first = (unit * CHUNK + $g) * PARTS;
    var highest = LOWEST;
    for (var i = 0u; i < PARTS; i++) {
      highest = max(highest, partial[first + i].x);
    }
    let scale = exp(top[$g] - highest);
    // for c < VECTORS
    mixed[$g * VECTORS + $c] *= scale;
    // end
    if (inside && lane == 0u && part == 0u) {
      var total = 0.0f;
      for (var i = 0u; i < PARTS; i++) {
        total += partial[first + i].y * exp(partial[first + i].x - highest);
      }
      totals[unit * CHUNK + $g] = total;
    }
  }
  // end
  // for r < ROUNDS
  if (inside) {
    // for i < MERGED
    if ($r * MERGED + $i < CHUNK * VECTORS) {
      area[$i * THREADS + thread] = mixed[min($r * MERGED + $i, CHUNK * VECTORS - 1u)];
    }
    // end
  }
  workgroupBarrier();
  for (var i = thread; i < MERGED * UNITS * LANES; i += THREADS) {
    let nth = i / (UNITS * LANES);
    let vector = $r * MERGED + nth;
    if (vector < CHUNK * VECTORS) {
      let at = i / LANES % UNITS;
      let own = i % LANES;
      var total = vec4f();
      for (var p = 0u; p < PARTS; p++) {
        total += area[nth * THREADS + (at * PARTS + p) * LANES + own];
      }
      let head = (at / CHUNKS % KV_HEADS) * GROUP + at % CHUNKS * CHUNK + vector / VECTORS;
      let to = at / (KV_HEADS * CHUNKS) * NARROW + head * HEAD_STEP + vector % VECTORS * LANES + own;
      // A closed row has no keys.
      narrow[to] = total / max(totals[at * CHUNK + vector / VECTORS], 1e-30f);
    }
  }
  workgroupBarrier();
  // end
  const TAIL = ATTENDED_QUADS - HEADS * HEAD_STEP;
  for (var i = thread; i < ROWS * TAIL; i += THREADS) {
    narrow[i / max(1u, TAIL) * NARROW + HEADS * HEAD_STEP + i % max(1u, TAIL)] = vec4f();
  }
  workgroupBarrier();
}
