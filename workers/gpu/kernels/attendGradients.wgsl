/** As `bringQueries`, of the gradients of the output, into `left` from `to`. */
fn bringGradients(to: u32, first: u32, last: u32, head: u32, k: u32, thread: u32) {
  for (var i = thread; i < TILE * VECTORS; i += 64u) {
    let token = min(first + i / VECTORS, last);
    left[to + i / VECTORS * STEP + i % VECTORS] = dOut[token * OUT_STEP + head * HEAD_VECTORS + k * VECTORS + i % VECTORS];
  }
}
