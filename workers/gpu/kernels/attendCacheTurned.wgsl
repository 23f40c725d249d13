// Queries come turned and scaled; keys and values of the row itself lie in the cache already.

fn prepare(row: u32, position: u32, slotBase: u32, kvHead: u32, first: u32, served: u32, thread: u32) {
  let source = (row * HEADS + kvHead * GROUP + first) * HEAD_STEP;
  for (var i = thread; i < CHUNK * HEAD_STEP; i += THREADS) {
    var q = vec4f();
    if (i < served * HEAD_STEP) {
      q = turnedQueries[source + i];
    }
    queries[i] = q;
  }
}

/** Vector `at` of the key at a position; past the last position, some key. */
fn keyAt(slotBase: u32, at: u32, position: u32, vector: u32) -> vec4f {
  return keys[slotBase + min(at, position) * KV_HEADS * HEAD_STEP + vector];
}

fn valueAt(slotBase: u32, at: u32, position: u32, vector: u32) -> vec4f {
  return values[slotBase + min(at, position) * KV_HEADS * HEAD_STEP + vector];
}
