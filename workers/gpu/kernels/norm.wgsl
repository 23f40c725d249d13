// A team of 32 threads per row, four rows per workgroup. A row's sum runs over the quads of a thread, then, by `rowSum`,
// over the team.

@group(0) @binding(0) var<storage, read> x: array<vec4f>;
@group(0) @binding(1) var<storage, read> weight: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> scales: array<f32>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  let row = (group.y * groups.x + group.x) * 4u + thread / 32u;
  let member = thread % 32u;
  let base = row * WIDTH_QUADS;
  let inside = row < arrayLength(&y) / WIDTH_QUADS;
  var sum = 0.0;
  if (inside) {
    for (var q = member; q < WIDTH_QUADS; q += 32u) {
      let value = x[base + q];
      sum += dot(value, value);
    }
  }
  let total = rowSum(sum, thread);
  if (!inside) { return; }
  let s = inverseSqrt(total / COLUMNS + EPSILON);
  for (var q = member; q < WIDTH_QUADS; q += 32u) { y[base + q] = x[base + q] * s * weight[q]; }
  if (member == 0u) { scales[row] = s; }
}
