// Gradient of one block of queries and one head, over the keys that they saw. With p = exp(s − logSum), dp = dOut·vᵀ and
// delta = Σ dOut·out: ds = p·(dp − delta), dq = ds·k. Delta is kept for the keys' kernel.

const RESIDENT: bool = CHUNKS == 1u; // queries and gradients stay in workgroup memory
const LEFTS: u32 = select(1u, 2u, RESIDENT);
const RIGHTS: u32 = 1u;
const GRADIENTS: u32 = (LEFTS - 1u) * TILE * STEP; // where they stand in `left`

var<workgroup> deltas: array<f32, TILE * 2u>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
  let block = blocks[group.x];
  let head = group.y;
  let kvHead = head / GROUP;
  let first = block.z;
  let last = block.w;
  if (first > last) {
    return;
  }
  if (block.x >= block.y) {
    for (var i = thread; i < (last + 1u - first) * HEAD_VECTORS; i += 64u) {
      dqk[(first + i / HEAD_VECTORS) * QK_STEP + head * HEAD_VECTORS + i % HEAD_VECTORS] = vec4f();
    }
    for (var i = thread; i <= last - first; i += 64u) {
      deltaSums[(first + i) * HEADS + head] = 0.0f;
    }
    return;
  }
  let ty = thread / 8u;
  let tx = thread % 8u;

  {
    let base = min(first + thread / 2u, last) * OUT_STEP + head * HEAD_VECTORS + thread % 2u * (HEAD_VECTORS / 2u);
    var along = vec4f();
    for (var i = 0u; i < HEAD_VECTORS / 2u; i++) {
      along = fma(dOut[base + i], out[base + i], along);
    }
    deltas[thread] = (along.x + along.y) + (along.z + along.w);
  }
  workgroupBarrier();
  if (thread <= last - first) {
    deltaSums[(first + thread) * HEADS + head] = deltas[thread * 2u] + deltas[thread * 2u + 1u];
  }
  var logSum = array<f32, 4u>();
  var delta = array<f32, 4u>();
  // for i < FOUR
  logSum[$i] = logSums[min(first + ty * 4u + $i, last) * HEADS + head];
  delta[$i] = deltas[(ty * 4u + $i) * 2u] + deltas[(ty * 4u + $i) * 2u + 1u];
  // end
  // for k < CHUNKS
  var dq$k = array<vec4f, 4u * COLUMNS>();
  // end

  for (var start = block.x; start <= last; start += TILE) {
    var dp = array<vec4f, 4u>();
    for (var k = 0u; k < CHUNKS; k++) {
      if (!RESIDENT || start == block.x) {
        bringGradients(GRADIENTS, first, last, head, k, thread);
      }
      bringValues(0u, start, last, kvHead, k, thread);
      workgroupBarrier();
      addProducts(&dp, GRADIENTS, 0u, thread);
      workgroupBarrier();
    }
    var s = array<vec4f, 4u>();
    for (var k = 0u; k < CHUNKS; k++) {
      if (!RESIDENT || start == block.x) {
        bringQueries(first, last, head, k, thread);
      }
      bringKeys(start, last, kvHead, k, thread);
      workgroupBarrier();
      addProducts(&s, 0u, 0u, thread);
      if (!RESIDENT) {
        workgroupBarrier();
      }
    }
    let keys = vec4u(start + tx * 4u) + vec4u(0u, 1u, 2u, 3u);
    // for i < FOUR
    {
      let p = select(vec4f(), exp(s[$i] - vec4f(logSum[$i])), keys <= vec4u(first + ty * 4u + $i));
      pairs[(ty * 4u + $i) * TILE_STEP + tx] = p * (dp[$i] - vec4f(delta[$i]));
    }
    // end
    // for k < CHUNKS
    if (!RESIDENT) {
      bringKeys(start, last, kvHead, $k, thread);
    }
    workgroupBarrier();
    addByQuery(&dq$k, thread);
    workgroupBarrier();
    // end
  }

  // for i < FOUR
  if (first + ty * 4u + $i <= last) {
    let base = (first + ty * 4u + $i) * QK_STEP + head * HEAD_VECTORS;
    // for k < CHUNKS
    // for c < COLUMNS
    if (tx + $c * 8u < VECTORS) {
      dqk[base + $k * VECTORS + $c * 8u + tx] = dq$k[$c * 4u + $i];
    }
    // end
    // end
  }
  // end
}
