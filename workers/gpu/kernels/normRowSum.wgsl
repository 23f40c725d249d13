var<workgroup> parts: array<f32, 128>;

/** Σ over a team, first thread to last. */
fn rowSum(value: f32, thread: u32) -> f32 {
  parts[thread] = value;
  workgroupBarrier();
  var total = 0.0;
  for (var i = 0u; i < 32u; i++) { total += parts[(thread & ~31u) + i]; }
  return total;
}
