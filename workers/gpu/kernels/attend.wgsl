// Causal attention of one block of queries and one head, by an online softmax over blocks of keys.

const LEFTS: u32 = 1u;
const RIGHTS: u32 = 1u;
const LOWEST: f32 = -1e30f;

var<workgroup> tops: array<f32, TILE>;
var<workgroup> scales: array<f32, TILE>;
var<workgroup> sums: array<f32, TILE * 2u>;

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
  if (head == 0u) {
    let unused = OUT_STEP - HEADS * HEAD_VECTORS;
    for (var i = thread; i < (last + 1u - first) * unused; i += 64u) {
      out[(first + i / unused) * OUT_STEP + HEADS * HEAD_VECTORS + i % unused] = vec4f();
    }
  }
  if (block.x >= block.y) {
    for (var i = thread; i < (last + 1u - first) * HEAD_VECTORS; i += 64u) {
      out[(first + i / HEAD_VECTORS) * OUT_STEP + head * HEAD_VECTORS + i % HEAD_VECTORS] = vec4f();
    }
    for (var i = thread; i <= last - first; i += 64u) {
      logSums[(first + i) * HEADS + head] = 0.0f;
    }
    return;
  }
  let ty = thread / 8u;
  let tx = thread % 8u;
  // Two threads follow the softmax of one query, each over half of a block's keys.
  let softmaxRow = thread / 2u;
  let softmaxHalf = thread % 2u;
  var top = LOWEST;
  var sum = 0.0f;
  // for k < CHUNKS
  var mixed$k = array<vec4f, 4u * COLUMNS>();
  // end

  for (var start = block.x; start <= last; start += TILE) {
    var s = array<vec4f, 4u>();
    for (var k = 0u; k < CHUNKS; k++) {
      if (CHUNKS > 1u || start == block.x) {
        bringQueries(first, last, head, k, thread);
      }
      bringKeys(start, last, kvHead, k, thread);
      workgroupBarrier();
      addProducts(&s, 0u, 0u, thread);
      workgroupBarrier();
    }
    let keys = vec4u(start + tx * 4u) + vec4u(0u, 1u, 2u, 3u);
    // for i < FOUR
    pairs[(ty * 4u + $i) * TILE_STEP + tx] = select(vec4f(LOWEST), s[$i], keys <= vec4u(first + ty * 4u + $i));
    // end
    workgroupBarrier();

    var highest = vec4f(top);
    // for i < EIGHT
    highest = max(highest, pairs[softmaxRow * TILE_STEP + $i]);
    // end
    let newTop = max(max(highest.x, highest.y), max(highest.z, highest.w));
    let scale = exp(top - newTop);
    top = newTop;
    // Both threads of a query have read its scores before either writes weights over them.
    workgroupBarrier();
    var added = vec4f();
    // for i < FOUR
    {
      let at = softmaxRow * TILE_STEP + softmaxHalf * 4u + $i;
      let score = pairs[at];
      let weight = select(exp(score - vec4f(top)), vec4f(), score <= vec4f(LOWEST));
      pairs[at] = weight;
      added += weight;
    }
    // end
    sum = fma(sum, scale, (added.x + added.y) + (added.z + added.w));
    if (softmaxHalf == 0u) {
      scales[softmaxRow] = scale;
    }

    // for k < CHUNKS
    bringValues(0u, start, last, kvHead, $k, thread);
    workgroupBarrier();
    // for i < FOUR
    {
      let rescale = scales[ty * 4u + $i];
      // for c < COLUMNS
      mixed$k[$c * 4u + $i] *= rescale;
      // end
    }
    // end
    addByQuery(&mixed$k, thread);
    workgroupBarrier();
    // end
  }

  sums[thread] = sum;
  if (softmaxHalf == 0u) {
    tops[softmaxRow] = top;
  }
  workgroupBarrier();
  // for i < FOUR
  {
    let query = ty * 4u + $i;
    if (first + query <= last) {
      let total = sums[query * 2u] + sums[query * 2u + 1u];
      let base = (first + query) * OUT_STEP + head * HEAD_VECTORS;
      // for k < CHUNKS
      // for c < COLUMNS
      if (tx + $c * 8u < VECTORS) {
        out[base + $k * VECTORS + $c * 8u + tx] = mixed$k[$c * 4u + $i] / total;
      }
      // end
      // end
      if (tx == 0u) {
        logSums[(first + query) * HEADS + head] = tops[query] + log(total);
      }
    }
  }
  // end
}
