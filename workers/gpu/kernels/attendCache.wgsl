// Attention of one row over positions 0 … `position` of its slot's cache. A workgroup serves the CHUNK query heads of one
// key head (all of the group, or an even share of a large one), so that keys and values are read once for all of them.
//
// LANES threads share a key: each holds VECTORS vectors of it, which makes every load of LANES · 16 bytes one line. PARTS
// such teams take keys in turn, UNROLL of them in a block of BLOCK = PARTS · UNROLL keys; each team runs its own online
// softmax, and the teams are merged at the end. Which team takes a key, and when, follows from its position alone: so does
// the order of every sum.
//
// This text begins the kernel, one of attendCacheBlocks.wgsl and attendCacheShuffled.wgsl goes through the blocks, and
// attendCacheMerge.wgsl ends it.

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
