// Rows of qkv → queries normed, turned and scaled, and keys normed and turned; zeros for padding. One thread for four
// numbers of each half of one head of one row.

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let row = id.y;
  let head = id.x / PAIRS;
  let pair = id.x % PAIRS;
  if (head >= HEADS + KV_HEADS) {
    return;
  }
  let span = spans[row];
  var x = Halves();
  if (span.x < span.y) {
    if (head < HEADS) {
      x = queryPair(row, head, pair, row - span.x);
    } else {
      x = keyPair(row, head - HEADS, pair, row - span.x);
    }
  }
  let to = (row * (HEADS + KV_HEADS) + head) * HEAD_VECTORS + pair;
  qk[to] = x.first;
  qk[to + PAIRS] = x.second;
}
