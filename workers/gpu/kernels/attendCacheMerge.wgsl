// The teams' softmaxes under one maximum per head: `tops` and `sums` hold them by head and team, `mixed` a thread's vectors.

  workgroupBarrier();
  if (thread < CHUNK * PARTS) {
    var highest = LOWEST;
    for (var i = 0u; i < PARTS; i++) {
      highest = max(highest, tops[thread / PARTS * PARTS + i]);
    }
    let scale = exp(tops[thread] - highest);
    scales[thread] = scale;
    sums[thread] *= scale;
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
