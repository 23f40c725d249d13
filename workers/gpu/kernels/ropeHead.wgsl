// One head of a row of qkv, normed per head where NORM says so and turned by its position, four numbers of each half at a
// time. Every kernel that norms and turns does it by this text, so that their numbers agree to the bit.
//
// Needs: qkv [rows, QKV_STRIDE], turns [positions, d/2] (cos, sin), and with NORM queryNorm and keyNorm [d].

/** `base` is the vector at which the head starts. */
fn inverseSpread(base: u32) -> f32 {
  var squares = vec4f();
  for (var i = 0u; i < HEAD_VECTORS; i++) {
    let x = qkv[base + i];
    squares = fma(x, x, squares);
  }
  let sum = (squares.x + squares.y) + (squares.z + squares.w);
  return inverseSqrt(fma(sum, INVERSE_WIDTH, EPSILON));
}

fn turned(x: Halves, position: u32, pair: u32) -> Halves {
  let at = (position * PAIRS + pair) * 2u;
  let low = turns[at];
  let high = turns[at + 1u];
  let cosine = vec4f(low.xz, high.xz);
  let sine = vec4f(low.yw, high.yw);
  return Halves(fma(x.first, cosine, -(x.second * sine)), fma(x.second, cosine, x.first * sine));
}

fn queryPair(row: u32, head: u32, pair: u32, position: u32) -> Halves {
  let base = row * (QKV_STRIDE / 4u) + head * HEAD_VECTORS;
  let q = turned(normedQuery(base, pair), position, pair);
  return Halves(q.first * QUERY_SCALE, q.second * QUERY_SCALE);
}

fn keyPair(row: u32, kvHead: u32, pair: u32, position: u32) -> Halves {
  let base = row * (QKV_STRIDE / 4u) + (HEADS + kvHead) * HEAD_VECTORS;
  return turned(normedKey(base, pair), position, pair);
}

fn valuePair(row: u32, kvHead: u32, pair: u32) -> Halves {
  let base = row * (QKV_STRIDE / 4u) + (HEADS + KV_HEADS + kvHead) * HEAD_VECTORS;
  return Halves(qkv[base + pair], qkv[base + PAIRS + pair]);
}
