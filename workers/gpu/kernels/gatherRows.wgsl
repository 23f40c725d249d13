// One thread per quad of the result.

@group(0) @binding(0) var<storage, read> source: array<vec4f>;
@group(0) @binding(1) var<storage, read> indices: array<u32>;
@group(0) @binding(2) var<storage, read_write> result: array<vec4f>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  let i = (group.y * groups.x + group.x) * 256u + thread;
  if (i >= arrayLength(&result)) { return; }
  result[i] = source[indices[i / WIDTH_QUADS] * WIDTH_QUADS + i % WIDTH_QUADS];
}
