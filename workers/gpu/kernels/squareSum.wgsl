// Of n workgroups each sums every n-th run of 256 quads: over a thread's quads, over sixteen threads, over the sixteens.

@group(0) @binding(0) var<storage, read> vector: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> parts: array<f32>;

var<workgroup> sums: array<f32, 256>;
var<workgroup> sixteens: array<f32, 16>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  var squares = vec4f(0.0);
  for (var i = group.x * 256u + thread; i < arrayLength(&vector); i += groups.x * 256u) {
    squares = fma(vector[i], vector[i], squares);
  }
  sums[thread] = (squares.x + squares.y) + (squares.z + squares.w);
  workgroupBarrier();
  if (thread < 16u) {
    var sixteen = 0.0;
    for (var i = 0u; i < 16u; i++) { sixteen += sums[16u * thread + i]; }
    sixteens[thread] = sixteen;
  }
  workgroupBarrier();
  if (thread == 0u) {
    var sum = 0.0;
    for (var i = 0u; i < 16u; i++) { sum += sixteens[i]; }
    parts[group.x] = sum;
  }
}
