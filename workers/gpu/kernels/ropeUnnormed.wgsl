fn normedQuery(base: u32, pair: u32) -> Halves {
  return Halves(qkv[base + pair], qkv[base + PAIRS + pair]);
}

fn normedKey(base: u32, pair: u32) -> Halves {
  return Halves(qkv[base + pair], qkv[base + PAIRS + pair]);
}
