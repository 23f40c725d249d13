fn unnormed(dz: Halves, base: u32, raw: u32, head: u32, pair: u32) -> Halves {
  return dz;
}
