// The way back of gatherRows, as a gather too: one thread per quad of the result.

@group(0) @binding(0) var<storage, read> unit: array<vec4f>;
@group(0) @binding(1) var<storage, read> slopes: array<f32>;
@group(0) @binding(2) var<storage, read> places: array<u32>;
@group(0) @binding(3) var<storage, read_write> result: array<vec4f>;

const NOWHERE = 0xffffffffu;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  let i = (group.y * groups.x + group.x) * 256u + thread;
  if (i >= arrayLength(&result)) { return; }
  let place = places[i / WIDTH_QUADS];
  if (place == NOWHERE) {
    result[i] = vec4f(0.0);
    return;
  }
  result[i] = slopes[place] * unit[place * WIDTH_QUADS + i % WIDTH_QUADS];
}
