// With s = 1/√(mean(x²) + ε) and z = x·s·w: dx = s·w·dz − x·s²·mean(dz·z). A turn keeps products, so that the sum of dz·z
// is that of the turned ones, dqk·qk.
fn unnormed(dz: Halves, base: u32, raw: u32, head: u32, pair: u32) -> Halves {
  let s = inverseSpread(raw);
  var along = vec4f();
  for (var i = 0u; i < HEAD_VECTORS; i++) {
    along = fma(dqk[base + i], qk[base + i], along);
  }
  let mean = ((along.x + along.y) + (along.z + along.w)) * INVERSE_WIDTH;
  var first = keyNorm[pair];
  var second = keyNorm[PAIRS + pair];
  if (head < HEADS) {
    first = queryNorm[pair];
    second = queryNorm[PAIRS + pair];
  }
  let less = -(s * s * mean);
  return Halves(
    fma(qkv[raw + pair], vec4f(less), dz.first * s * first),
    fma(qkv[raw + PAIRS + pair], vec4f(less), dz.second * s * second),
  );
}
