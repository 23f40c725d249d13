// Attention of one row over positions 0 … `position` of its slot's cache. A workgroup serves the CHUNK query heads of one
// key head (all of the group, or an even share of a large one), so that keys and values are read once for all of them.
//
// LANES threads share a key: each holds VECTORS vectors of it, which makes every load of LANES · 16 bytes one line. PARTS
// such teams take keys in turn, UNROLL of them in a block of BLOCK = PARTS · UNROLL keys; each team runs its own online
// softmax, and the teams are merged at the end. Which team takes a key, and when, follows from its position alone: so does
// the order of every sum.

const HEAD_STEP: u32 = HEAD_WIDTH / 4u;
const BLOCK: u32 = PARTS * UNROLL;
const THREADS: u32 = PARTS * LANES;
const PADDED: u32 = LANES + 1u; // keeps teams on different banks
const ROW_STEP: u32 = PARTS * PADDED + LANES; // the same, while merging
const LOWEST: f32 = -1e30f;

var<workgroup> queries: array<vec4f, CHUNK * HEAD_STEP>;
var<workgroup> area: array<f32, AREA>;
var<workgroup> weights: array<f32, UNROLL * CHUNK * PARTS>;
var<workgroup> scales: array<f32, CHUNK * PARTS>;
var<workgroup> tops: array<f32, CHUNK * PARTS>;
var<workgroup> sums: array<f32, CHUNK * PARTS>;
var<workgroup> totals: array<f32, CHUNK>;

fn productOf(a: vec4f, b: vec4f, sum: f32) -> f32 {
  return fma(a.x, b.x, fma(a.y, b.y, fma(a.z, b.z, fma(a.w, b.w, sum))));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
  let row = group.x;
  let kvHead = group.y / CHUNKS;
  let first = (group.y % CHUNKS) * CHUNK; // of the group's query heads
  let served = min(CHUNK, GROUP - first);
  let place = placeOf(row);
  let position = place.y;
  let outBase = row * OUT_STRIDE;
  if (group.y == 0u) {
    for (var i = HEADS * HEAD_WIDTH + thread; i < OUT_STRIDE; i += THREADS) {
      out[outBase + i] = 0.0f;
    }
  }
  let outHead = outBase + (kvHead * GROUP + first) * HEAD_WIDTH;
  if (position >= POSITIONS) {
    for (var i = thread; i < served * HEAD_WIDTH; i += THREADS) {
      out[outHead + i] = 0.0f;
    }
    return;
  }
  let slotBase = (place.x * POSITIONS * KV_HEADS + kvHead) * HEAD_STEP;
  prepare(row, position, slotBase, kvHead, first, served, thread);
  workgroupBarrier();

  let part = thread / LANES;
  let lane = thread % LANES;
  // The thread that follows the softmax of one team's keys for one head.
  let softmaxHead = thread / PARTS;
  let softmaxPart = thread % PARTS;
  var top = LOWEST;
  var sum = 0.0f;

  var mixed: array<vec4f, CHUNK * VECTORS>;
  var k: array<vec4f, UNROLL * VECTORS>;
  var v: array<vec4f, UNROLL * VECTORS>;
  // for u < UNROLL
  // for c < VECTORS
  k[$u * VECTORS + $c] = keyAt(slotBase, part + $u * PARTS, position, $c * LANES + lane);
  v[$u * VECTORS + $c] = valueAt(slotBase, part + $u * PARTS, position, $c * LANES + lane);
  // end
  // end
  let blocks = position / BLOCK + 1u;
  for (var block = 0u; block < blocks; block++) {
    var partial = array<f32, UNROLL * CHUNK>();
    // for c < VECTORS
    // for g < CHUNK
    {
      let q = queries[$g * HEAD_STEP + $c * LANES + lane];
      // for u < UNROLL
      partial[$u * CHUNK + $g] = productOf(k[$u * VECTORS + $c], q, partial[$u * CHUNK + $g]);
      // end
    }
    // end
    // end
    // for u < UNROLL
    // for g < CHUNK
    area[(($u * CHUNK + $g) * PARTS + part) * PADDED + lane] = partial[$u * CHUNK + $g];
    // end
    // end
    let next = (block + 1u) * BLOCK + part;
    if (block + 1u < blocks) {
      // for u < UNROLL
      // for c < VECTORS
      k[$u * VECTORS + $c] = keyAt(slotBase, next + $u * PARTS, position, $c * LANES + lane);
      // end
      // end
    }
    workgroupBarrier();

    if (thread < CHUNK * PARTS) {
      var score: array<f32, UNROLL>;
      var highest = top;
      // for u < UNROLL
      {
        let at = (($u * CHUNK + softmaxHead) * PARTS + softmaxPart) * PADDED;
        var total = area[at];
        for (var i = 1u; i < LANES; i++) {
          total += area[at + i];
        }
        let seen = block * BLOCK + $u * PARTS + softmaxPart <= position;
        score[$u] = select(LOWEST, total, seen);
        highest = max(highest, score[$u]);
      }
      // end
      let scale = exp(top - highest);
      scales[thread] = scale;
      var added = 0.0f;
      // for u < UNROLL
      {
        let seen = block * BLOCK + $u * PARTS + softmaxPart <= position;
        let weight = select(0.0f, exp(score[$u] - highest), seen);
        weights[$u * CHUNK * PARTS + thread] = weight;
        added += weight;
      }
      // end
      sum = fma(sum, scale, added);
      top = highest;
    }
    workgroupBarrier();

    // for g < CHUNK
    {
      let scale = scales[$g * PARTS + part];
      // for c < VECTORS
      mixed[$g * VECTORS + $c] *= scale;
      // end
      // for u < UNROLL
      {
        let weight = vec4f(weights[($u * CHUNK + $g) * PARTS + part]);
        // for c < VECTORS
        mixed[$g * VECTORS + $c] = fma(weight, v[$u * VECTORS + $c], mixed[$g * VECTORS + $c]);
        // end
      }
      // end
    }
    // end
    if (block + 1u < blocks) {
      // for u < UNROLL
      // for c < VECTORS
      v[$u * VECTORS + $c] = valueAt(slotBase, next + $u * PARTS, position, $c * LANES + lane);
      // end
      // end
    }
  }

  // The teams' softmaxes under one maximum per head.
  if (thread < CHUNK * PARTS) {
    tops[thread] = top;
  }
  workgroupBarrier();
  if (thread < CHUNK * PARTS) {
    var highest = LOWEST;
    for (var i = 0u; i < PARTS; i++) {
      highest = max(highest, tops[softmaxHead * PARTS + i]);
    }
    let scale = exp(top - highest);
    scales[thread] = scale;
    sums[thread] = sum * scale;
  }
  workgroupBarrier();
  if (thread < CHUNK) {
    var total = 0.0f;
    for (var i = 0u; i < PARTS; i++) {
      total += sums[thread * PARTS + i];
    }
    totals[thread] = total;
  }
  // for r < ROUNDS
  // for i < MERGED
  if ($r * MERGED + $i < CHUNK * VECTORS) {
    let scaled = mixed[min($r * MERGED + $i, CHUNK * VECTORS - 1u)] * scales[($r * MERGED + $i) / VECTORS * PARTS + part];
    let to = $i * 4u * ROW_STEP + part * PADDED + lane;
    area[to] = scaled.x;
    area[to + ROW_STEP] = scaled.y;
    area[to + 2u * ROW_STEP] = scaled.z;
    area[to + 3u * ROW_STEP] = scaled.w;
  }
  // end
  workgroupBarrier();
  for (var i = thread; i < MERGED * LANES * 4u; i += THREADS) {
    let vector = $r * MERGED + i / (LANES * 4u);
    let head = vector / VECTORS;
    if (head < served) {
      let component = i % 4u;
      let at = i / 4u % LANES;
      let source = (i / (LANES * 4u) * 4u + component) * ROW_STEP + at;
      var total = 0.0f;
      for (var p = 0u; p < PARTS; p++) {
        total += area[source + p * PADDED];
      }
      out[outHead + head * HEAD_WIDTH + (vector % VECTORS * LANES + at) * 4u + component] = total / totals[head];
    }
  }
  workgroupBarrier();
  // end
}
