var<workgroup> sums: array<f32, 256>;
var<workgroup> sixteens: array<f32, 16>;

/** The sum of what 256 threads bring, told to each: over sixteen threads, then over the sixteens. */
fn sumOfThreads(own: f32, thread: u32) -> f32 {
  sums[thread] = own;
  workgroupBarrier();
  if (thread < 16u) {
    var sixteen = 0.0;
    for (var i = 0u; i < 16u; i++) { sixteen += sums[16u * thread + i]; }
    sixteens[thread] = sixteen;
  }
  workgroupBarrier();
  var sum = 0.0;
  for (var i = 0u; i < 16u; i++) { sum += sixteens[i]; }
  return sum;
}
