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
  // for k < CHUNKS
  var dk$k = array<vec4f, 4u * COLUMNS>();
  var dv$k = array<vec4f, 4u * COLUMNS>();
  // end
  if (RESIDENT) {
    bringKeys(first, last, kvHead, 0u, thread);
    bringValues(VALUES, first, last, kvHead, 0u, thread);
  }

  for (var g = 0u; g < GROUP; g++) {
    let head = kvHead * GROUP + g;
    for (var start = first; start < end; start += TILE) {
      var s = array<vec4f, 4u>();
      for (var k = 0u; k < CHUNKS; k++) {
        bringQueries(start, end - 1u, head, k, thread);
        if (!RESIDENT) {
          bringKeys(first, last, kvHead, k, thread);
        }
        workgroupBarrier();
        addProducts(&s, 0u, 0u, thread);
        workgroupBarrier();
      }
      var dp = array<vec4f, 4u>();
      for (var k = 0u; k < CHUNKS; k++) {
        bringGradients(0u, start, end - 1u, head, k, thread);
        if (!RESIDENT) {
          bringValues(VALUES, first, last, kvHead, k, thread);
        }
        workgroupBarrier();
        addProducts(&dp, 0u, VALUES, thread);
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
        bringGradients(0u, start, end - 1u, head, $k, thread);
      }
      workgroupBarrier();
      addByKey(&dv$k, thread);
      workgroupBarrier();
      // end
      // for i < FOUR
      pairs[(ty * 4u + $i) * TILE_STEP + tx] = dp[$i];
      // end
      // for k < CHUNKS
      bringQueries(start, end - 1u, head, $k, thread);
      workgroupBarrier();
      addByKey(&dk$k, thread);
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
      dqk[toKey + $k * VECTORS + $c * 8u + tx] = dk$k[$c * 4u + $i];
      dqkv[toValue + $k * VECTORS + $c * 8u + tx] = dv$k[$c * 4u + $i];
    }
    // end
    // end
  }
  // end
}

/** For a chunk of `left`: sum[4·c + i] += Σ over queries of pairs[query][4·ty + i] · vector tx + 8·c of the query's row. */
fn addByKey(sum: ptr<function, array<vec4f, 4u * COLUMNS>>, thread: u32) {
  let ty = thread / 8u;
  let tx = thread % 8u;
  for (var n = 0u; n < TILE; n++) {
    let weights = pairs[n * TILE_STEP + ty];
    // for c < COLUMNS
    {
      let row = left[n * STEP + min(tx + $c * 8u, VECTORS - 1u)];
      // for i < FOUR
      (*sum)[$c * 4u + $i] = fma(vec4f(weights[$i]), row, (*sum)[$c * 4u + $i]);
      // end
    }
    // end
  }
}
