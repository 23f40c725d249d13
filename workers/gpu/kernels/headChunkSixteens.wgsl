// Over sixteen threads, then over the sixteens.

var<workgroup> parts: array<vec2f, THREADS>;
var<workgroup> sixteens: array<vec2f, THREADS / 16u>;

fn highestOf(value: vec2f, thread: u32) -> vec2f {
  parts[thread] = value;
  workgroupBarrier();
  if (thread < THREADS / 16u) {
    var sixteen = parts[16u * thread];
    for (var i = 1u; i < 16u; i++) { sixteen = max(sixteen, parts[16u * thread + i]); }
    sixteens[thread] = sixteen;
  }
  workgroupBarrier();
  var highest = sixteens[0];
  for (var i = 1u; i < THREADS / 16u; i++) { highest = max(highest, sixteens[i]); }
  return highest;
}

fn totalOf(value: vec2f, thread: u32) -> vec2f {
  parts[thread] = value;
  workgroupBarrier();
  if (thread < THREADS / 16u) {
    var sixteen = vec2f(0.0);
    for (var i = 0u; i < 16u; i++) { sixteen += parts[16u * thread + i]; }
    sixteens[thread] = sixteen;
  }
  workgroupBarrier();
  var total = vec2f(0.0);
  for (var i = 0u; i < THREADS / 16u; i++) { total += sixteens[i]; }
  return total;
}
