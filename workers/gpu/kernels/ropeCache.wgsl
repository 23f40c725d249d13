// Rows of qkv → queries normed, turned and scaled; keys normed and turned, and values, into their places in the cache.
// One thread for four numbers of each half of one head of one row.

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let row = id.y;
  let head = id.x / PAIRS;
  let pair = id.x % PAIRS;
  if (head >= HEADS + 2u * KV_HEADS) {
    return;
  }
  let place = placeOf(row);
  let padding = place.y >= POSITIONS;
  if (head < HEADS) {
    var q = Halves();
    if (!padding) {
      q = queryPair(row, head, pair, place.y);
    }
    let to = (row * HEADS + head) * HEAD_VECTORS + pair;
    queries[to] = q.first;
    queries[to + PAIRS] = q.second;
    return;
  }
  if (padding) {
    return;
  }
  let kvHead = (head - HEADS) % KV_HEADS;
  let to = ((place.x * POSITIONS + place.y) * KV_HEADS + kvHead) * HEAD_VECTORS + pair;
  if (head < HEADS + KV_HEADS) {
    let k = keyPair(row, kvHead, pair, place.y);
    keys[to] = k.first;
    keys[to + PAIRS] = k.second;
  } else {
    let v = valuePair(row, kvHead, pair);
    values[to] = v.first;
    values[to + PAIRS] = v.second;
  }
}
