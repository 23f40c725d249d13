// Norms and turns the row's own queries and key, writes key and value to the cache for later rows, and uses its own copy.

var<workgroup> ownKey: array<vec4f, HEAD_STEP>;
var<workgroup> ownValue: array<vec4f, HEAD_STEP>;

fn prepare(row: u32, position: u32, slotBase: u32, kvHead: u32, first: u32, served: u32, thread: u32) {
  let to = slotBase + position * KV_HEADS * HEAD_STEP;
  for (var i = thread; i < (CHUNK + 2u) * PAIRS; i += THREADS) {
    let head = i / PAIRS;
    let pair = i % PAIRS;
    if (head < CHUNK) {
      var q = Halves();
      if (head < served) {
        q = queryPair(row, kvHead * GROUP + first + head, pair, position);
      }
      queries[head * HEAD_STEP + pair] = q.first;
      queries[head * HEAD_STEP + PAIRS + pair] = q.second;
    } else if (head == CHUNK) {
      let k = keyPair(row, kvHead, pair, position);
      ownKey[pair] = k.first;
      ownKey[PAIRS + pair] = k.second;
      if (first == 0u) {
        keys[to + pair] = k.first;
        keys[to + PAIRS + pair] = k.second;
      }
    } else {
      let v = valuePair(row, kvHead, pair);
      ownValue[pair] = v.first;
      ownValue[PAIRS + pair] = v.second;
      if (first == 0u) {
        values[to + pair] = v.first;
        values[to + PAIRS + pair] = v.second;
      }
    }
  }
}

/** Vector `at` of the key at a position; past the last position, some key. */
fn keyAt(slotBase: u32, at: u32, position: u32, vector: u32) -> vec4f {
  if (at < position) {
    return keys[slotBase + at * KV_HEADS * HEAD_STEP + vector];
  }
  return ownKey[vector];
}

fn valueAt(slotBase: u32, at: u32, position: u32, vector: u32) -> vec4f {
  if (at < position) {
    return values[slotBase + at * KV_HEADS * HEAD_STEP + vector];
  }
  return ownValue[vector];
}
