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
  var dq = array<vec4f, 4u * COLUMNS * CHUNKS>();

  for (var start = block.x; start <= last; start += TILE) {
    var dp = array<vec4f, 4u>();
    for (var k = 0u; k < CHUNKS; k++) {
      for (var i = thread; i < TILE * VECTORS; i += 64u) {
        let vector = k * VECTORS + i % VECTORS;
        if (!RESIDENT || start == block.x) {
          let token = min(first + i / VECTORS, last);
          left[GRADIENTS + i / VECTORS * STEP + i % VECTORS] = dOut[token * OUT_STEP + head * HEAD_VECTORS + vector];
        }
        right[rowOfKey(i / VECTORS) * STEP + i % VECTORS] = valueAt(min(start + i / VECTORS, last), kvHead, vector);
      }
      workgroupBarrier();
      for (var c = 0u; c < VECTORS; c++) {
        let v0 = right[tx * STEP + c];
        let v1 = right[(8u + tx) * STEP + c];
        let v2 = right[(16u + tx) * STEP + c];
        let v3 = right[(24u + tx) * STEP + c];
        // for i < FOUR
        dp[$i] = products(left[GRADIENTS + (ty * 4u + $i) * STEP + c], v0, v1, v2, v3, dp[$i]);
        // end
      }
      workgroupBarrier();
    }
    var s = array<vec4f, 4u>();
    for (var k = 0u; k < CHUNKS; k++) {
      for (var i = thread; i < TILE * VECTORS; i += 64u) {
        let vector = k * VECTORS + i % VECTORS;
        if (!RESIDENT || start == block.x) {
          left[i / VECTORS * STEP + i % VECTORS] = queryAt(min(first + i / VECTORS, last), head, vector);
        }
        right[rowOfKey(i / VECTORS) * STEP + i % VECTORS] = keyAt(min(start + i / VECTORS, last), kvHead, vector);
      }
      workgroupBarrier();
      for (var c = 0u; c < VECTORS; c++) {
        let k0 = right[tx * STEP + c];
        let k1 = right[(8u + tx) * STEP + c];
        let k2 = right[(16u + tx) * STEP + c];
        let k3 = right[(24u + tx) * STEP + c];
        // for i < FOUR
        s[$i] = products(left[(ty * 4u + $i) * STEP + c], k0, k1, k2, k3, s[$i]);
        // end
      }
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
      for (var i = thread; i < TILE * VECTORS; i += 64u) {
        let token = min(start + i / VECTORS, last);
        right[rowOfKey(i / VECTORS) * STEP + i % VECTORS] = keyAt(token, kvHead, $k * VECTORS + i % VECTORS);
      }
    }
    workgroupBarrier();
    for (var n = 0u; n < 8u; n++) {
      // for i < FOUR
      let ds$i = pairs[(ty * 4u + $i) * TILE_STEP + n];
      // end
      // for c < COLUMNS
      {
        let column = min(tx + $c * 8u, VECTORS - 1u);
        // for j < FOUR
        {
          let key = right[($j * 8u + n) * STEP + column];
          // for i < FOUR
          dq[($k * COLUMNS + $c) * 4u + $i] = fma(vec4f(ds$i[$j]), key, dq[($k * COLUMNS + $c) * 4u + $i]);
          // end
        }
        // end
      }
      // end
    }
    workgroupBarrier();
    // end
  }

  // for i < FOUR
  if (first + ty * 4u + $i <= last) {
    let base = (first + ty * 4u + $i) * QK_STEP + head * HEAD_VECTORS;
    // for k < CHUNKS
    // for c < COLUMNS
    if (tx + $c * 8u < VECTORS) {
      dqk[base + $k * VECTORS + $c * 8u + tx] = dq[($k * COLUMNS + $c) * 4u + $i];
    }
    // end
    // end
  }
  // end
}
