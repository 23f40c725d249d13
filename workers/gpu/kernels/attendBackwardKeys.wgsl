// Gradients of one block of keys and values of one key head, over the queries of its group that saw them, head after head
// and each from its first such block of queries: dv = pᵀ·dOut, dk = dsᵀ·q.

const RESIDENT: bool = CHUNKS == 1u; // keys and values stay in workgroup memory
const LEFTS: u32 = 1u;
const RIGHTS: u32 = select(1u, 2u, RESIDENT);
const VALUES: u32 = (RIGHTS - 1u) * TILE * STEP; // where they stand in `right`

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) thread: u32,
) {
  // The table has long rows' last blocks first; keys at the start of a row take longest.
  let block = blocks[groups.x - 1u - group.x];
  let kvHead = group.y;
  let first = block.z;
  let last = block.w;
  if (first > last) {
    return;
  }
  if (block.x >= block.y) {
    for (var i = thread; i < (last + 1u - first) * HEAD_VECTORS; i += 64u) {
      let token = first + i / HEAD_VECTORS;
      dqk[token * QK_STEP + (HEADS + kvHead) * HEAD_VECTORS + i % HEAD_VECTORS] = vec4f();
      dqkv[token * QKV_STEP + (HEADS + KV_HEADS + kvHead) * HEAD_VECTORS + i % HEAD_VECTORS] = vec4f();
    }
    return;
  }
  let end = block.y;
  let ty = thread / 8u;
  let tx = thread % 8u;
  let keys = vec4u(first + tx * 4u) + vec4u(0u, 1u, 2u, 3u);
  var dk = array<vec4f, 4u * COLUMNS * CHUNKS>();
  var dv = array<vec4f, 4u * COLUMNS * CHUNKS>();
  if (RESIDENT) {
    for (var i = thread; i < TILE * VECTORS; i += 64u) {
      let token = min(first + i / VECTORS, last);
      right[rowOfKey(i / VECTORS) * STEP + i % VECTORS] = keyAt(token, kvHead, i % VECTORS);
      right[VALUES + rowOfKey(i / VECTORS) * STEP + i % VECTORS] = valueAt(token, kvHead, i % VECTORS);
    }
  }

  for (var g = 0u; g < GROUP; g++) {
    let head = kvHead * GROUP + g;
    for (var start = first; start < end; start += TILE) {
      var s = array<vec4f, 4u>();
      for (var k = 0u; k < CHUNKS; k++) {
        for (var i = thread; i < TILE * VECTORS; i += 64u) {
          let vector = k * VECTORS + i % VECTORS;
          left[i / VECTORS * STEP + i % VECTORS] = queryAt(min(start + i / VECTORS, end - 1u), head, vector);
          if (!RESIDENT) {
            right[rowOfKey(i / VECTORS) * STEP + i % VECTORS] = keyAt(min(first + i / VECTORS, last), kvHead, vector);
          }
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
        workgroupBarrier();
      }
      var dp = array<vec4f, 4u>();
      for (var k = 0u; k < CHUNKS; k++) {
        for (var i = thread; i < TILE * VECTORS; i += 64u) {
          let vector = k * VECTORS + i % VECTORS;
          left[i / VECTORS * STEP + i % VECTORS] = gradientAt(min(start + i / VECTORS, end - 1u), head, vector);
          if (!RESIDENT) {
            right[rowOfKey(i / VECTORS) * STEP + i % VECTORS] = valueAt(min(first + i / VECTORS, last), kvHead, vector);
          }
        }
        workgroupBarrier();
        for (var c = 0u; c < VECTORS; c++) {
          let v0 = right[VALUES + tx * STEP + c];
          let v1 = right[VALUES + (8u + tx) * STEP + c];
          let v2 = right[VALUES + (16u + tx) * STEP + c];
          let v3 = right[VALUES + (24u + tx) * STEP + c];
          // for i < FOUR
          dp[$i] = products(left[(ty * 4u + $i) * STEP + c], v0, v1, v2, v3, dp[$i]);
          // end
        }
        if (!RESIDENT) {
          workgroupBarrier();
        }
      }
      // for i < FOUR
      {
        let query = start + ty * 4u + $i;
        let at = min(query, end - 1u) * HEADS + head;
        let seen = (keys <= vec4u(query)) & vec4<bool>(query < end);
        let p = select(vec4f(), exp(s[$i] - vec4f(logSums[at])), seen);
        pairs[(ty * 4u + $i) * TILE_STEP + tx] = p;
        dp[$i] = p * (dp[$i] - vec4f(deltaSums[at]));
      }
      // end
      // for k < CHUNKS
      if (!RESIDENT) {
        for (var i = thread; i < TILE * VECTORS; i += 64u) {
          let vector = $k * VECTORS + i % VECTORS;
          left[i / VECTORS * STEP + i % VECTORS] = gradientAt(min(start + i / VECTORS, end - 1u), head, vector);
        }
      }
      workgroupBarrier();
      for (var n = 0u; n < TILE; n++) {
        let p = pairs[n * TILE_STEP + ty];
        // for c < COLUMNS
        {
          let gradient = left[n * STEP + min(tx + $c * 8u, VECTORS - 1u)];
          // for i < FOUR
          dv[($k * COLUMNS + $c) * 4u + $i] = fma(vec4f(p[$i]), gradient, dv[($k * COLUMNS + $c) * 4u + $i]);
          // end
        }
        // end
      }
      workgroupBarrier();
      // end
      // for i < FOUR
      pairs[(ty * 4u + $i) * TILE_STEP + tx] = dp[$i];
      // end
      // for k < CHUNKS
      for (var i = thread; i < TILE * VECTORS; i += 64u) {
        let vector = $k * VECTORS + i % VECTORS;
        left[i / VECTORS * STEP + i % VECTORS] = queryAt(min(start + i / VECTORS, end - 1u), head, vector);
      }
      workgroupBarrier();
      for (var n = 0u; n < TILE; n++) {
        let ds = pairs[n * TILE_STEP + ty];
        // for c < COLUMNS
        {
          let query = left[n * STEP + min(tx + $c * 8u, VECTORS - 1u)];
          // for i < FOUR
          dk[($k * COLUMNS + $c) * 4u + $i] = fma(vec4f(ds[$i]), query, dk[($k * COLUMNS + $c) * 4u + $i]);
          // end
        }
        // end
      }
      workgroupBarrier();
      // end
    }
  }

  // for i < FOUR
  if (first + ty * 4u + $i <= last) {
    let token = first + ty * 4u + $i;
    let toKey = token * QK_STEP + (HEADS + kvHead) * HEAD_VECTORS;
    let toValue = token * QKV_STEP + (HEADS + KV_HEADS + kvHead) * HEAD_VECTORS;
    // for k < CHUNKS
    // for c < COLUMNS
    if (tx + $c * 8u < VECTORS) {
      dqk[toKey + $k * VECTORS + $c * 8u + tx] = dk[($k * COLUMNS + $c) * 4u + $i];
      dqkv[toValue + $k * VECTORS + $c * 8u + tx] = dv[($k * COLUMNS + $c) * 4u + $i];
    }
    // end
    // end
  }
  // end
}

fn gradientAt(token: u32, head: u32, vector: u32) -> vec4f {
  return dOut[token * OUT_STEP + head * HEAD_VECTORS + vector];
}
