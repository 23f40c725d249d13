// Trainable numbers between their flat order and the order in which the products read them. An entry of the map is an index
// into the source, NOTHING for a zero, with SCALED set where the number is multiplied by alpha / r.

@group(0) @binding(0) var<storage, read> source: array<f32>;
@group(0) @binding(1) var<storage, read> map: array<u32>;
@group(0) @binding(2) var<storage, read_write> result: array<f32>;

const NOTHING = 0x7fffffffu;
const SCALED = 0x80000000u;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  let i = (group.y * groups.x + group.x) * 64u + thread;
  if (i >= SIZE) { return; }
  let entry = map[i];
  let index = entry & NOTHING;
  if (index == NOTHING) { result[i] = 0.0; return; }
  result[i] = source[index] * select(1.0, SCALE, (entry & SCALED) != 0u);
}
