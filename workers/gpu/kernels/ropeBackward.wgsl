// Gradients of turned queries and keys → gradients of the raw ones, into the first columns of dqkv; zeros behind the
// values' columns. One thread for four numbers of each half of one head of one row.

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let row = id.y;
  let head = id.x / PAIRS;
  let pair = id.x % PAIRS;
  if (head >= HEADS + KV_HEADS) {
    let column = (HEADS + 2u * KV_HEADS) * HEAD_VECTORS + id.x - (HEADS + KV_HEADS) * PAIRS;
    if (column < QKV_STRIDE / 4u) {
      dqkv[row * (QKV_STRIDE / 4u) + column] = vec4f();
    }
    return;
  }
  let raw = row * (QKV_STRIDE / 4u) + head * HEAD_VECTORS;
  let span = spans[row];
  var dx = Halves();
  if (span.x < span.y) {
    let base = (row * (HEADS + KV_HEADS) + head) * HEAD_VECTORS;
    let scale = select(1.0f, QUERY_SCALE, head < HEADS);
    dx = unnormed(turnedBack(Halves(dqk[base + pair] * scale, dqk[base + PAIRS + pair] * scale), row - span.x, pair), base, raw, head, pair);
  }
  dqkv[raw + pair] = dx.first;
  dqkv[raw + PAIRS + pair] = dx.second;
}

fn turnedBack(dy: Halves, position: u32, pair: u32) -> Halves {
  let at = (position * PAIRS + pair) * 2u;
  let low = turns[at];
  let high = turns[at + 1u];
  let cosine = vec4f(low.xz, high.xz);
  let sine = vec4f(low.yw, high.yw);
  return Halves(fma(dy.first, cosine, dy.second * sine), fma(dy.second, cosine, -(dy.first * sine)));
}
