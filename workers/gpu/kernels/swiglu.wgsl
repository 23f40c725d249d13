// One thread per quad of h, two quads of gateUp (gate, up, gate, up).

@group(0) @binding(0) var<storage, read> gateUp: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> h: array<vec4f>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  let i = (group.y * groups.x + group.x) * 256u + thread;
  if (i >= arrayLength(&h)) { return; }
  let a = gateUp[2u * i];
  let b = gateUp[2u * i + 1u];
  let gate = vec4f(a.xz, b.xz);
  h[i] = gate / (1.0 + exp(-max(gate, vec4f(-80.0)))) * vec4f(a.yw, b.yw);
}
