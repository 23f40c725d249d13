fn normedQuery(base: u32, pair: u32) -> Halves {
  let s = inverseSpread(base);
  return Halves(qkv[base + pair] * s * queryNorm[pair], qkv[base + PAIRS + pair] * s * queryNorm[PAIRS + pair]);
}

fn normedKey(base: u32, pair: u32) -> Halves {
  let s = inverseSpread(base);
  return Halves(qkv[base + pair] * s * keyNorm[pair], qkv[base + PAIRS + pair] * s * keyNorm[PAIRS + pair]);
}
