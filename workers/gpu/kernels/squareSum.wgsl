// Of n workgroups each sums every n-th run of 256 quads: over a thread's quads, then, by `sumOfThreads`,
// over the threads.

@group(0) @binding(0) var<storage, read> vector: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> parts: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  var squares = vec4f(0.0);
  for (var i = group.x * 256u + thread; i < arrayLength(&vector); i += groups.x * 256u) {
    squares = fma(vector[i], vector[i], squares);
  }
  let sum = sumOfThreads((squares.x + squares.y) + (squares.z + squares.w), thread);
  if (thread == 0u) { parts[group.x] = sum; }
}
