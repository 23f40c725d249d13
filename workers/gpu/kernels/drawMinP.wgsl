// Min-p: what weighs less than so much of the best is left out.
fn raiseToMinP(top: f32) {
  if (rule.minP > 0.0) {
    let key = keysOf(vec4f(min(top, top + log(rule.minP) / rule.temperatureInverse))).x;
    if (key > edge) {
      edge = key;
      edgeToken = NOTHING;
    }
  }
}
