// Adds parts that lie one after the other, first to last.

@group(0) @binding(0) var<storage, read> parts: array<vec4f>;
@group(0) @binding(1) var<storage, read> addend: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> result: array<vec4f>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  let i = (group.y * groups.x + group.x) * 64u + thread;
  if (i >= SIZE / 4u) { return; }
  let count = select(PARTS, arrayLength(&parts) / (SIZE / 4u), PARTS == 0u);
  var sum = parts[i];
  for (var part = 1u; part < count; part++) { sum += parts[part * (SIZE / 4u) + i]; }
  if (ADDEND == 0u) { result[i] = sum; }
  if (ADDEND == 1u) { result[i] = addend[i] + sum; }
  if (ADDEND == 2u) { result[i] = addend[i % (COLUMNS / 4u)] + sum; }
  if (ADDEND == 3u) { result[i] += sum; }
}
