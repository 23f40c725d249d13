// Every one of PARTS workgroups sums each PARTS-th run of 256 quads: over a thread's quads, then pairwise over threads.

@group(0) @binding(0) var<storage, read> vector: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> parts: array<f32>;

var<workgroup> sums: array<f32, 256>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
  var squares = vec4f(0.0);
  for (var i = group.x * 256u + thread; i < arrayLength(&vector); i += PARTS * 256u) {
    squares = fma(vector[i], vector[i], squares);
  }
  sums[thread] = (squares.x + squares.y) + (squares.z + squares.w);
  for (var half = 128u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (thread < half) { sums[thread] += sums[thread + half]; }
  }
  if (thread == 0u) { parts[group.x] = sums[0]; }
}
