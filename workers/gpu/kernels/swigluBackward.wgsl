// One thread per quad of dh, two quads of gateUp (gate, up, gate, up).

@group(0) @binding(0) var<storage, read> dh: array<vec4f>;
@group(0) @binding(1) var<storage, read> gateUp: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> dGateUp: array<vec4f>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  let i = (group.y * groups.x + group.x) * 256u + thread;
  if (2u * i >= arrayLength(&dGateUp)) { return; }
  let a = gateUp[2u * i];
  let b = gateUp[2u * i + 1u];
  let gate = vec4f(a.xz, b.xz);
  let sigmoid = 1.0 / (1.0 + exp(-max(gate, vec4f(-80.0))));
  let up = dh[i] * gate * sigmoid;
  let inner = dh[i] * vec4f(a.yw, b.yw) * sigmoid * (1.0 + gate * (1.0 - sigmoid));
  dGateUp[2u * i] = vec4f(inner.x, up.x, inner.y, up.y);
  dGateUp[2u * i + 1u] = vec4f(inner.z, up.z, inner.w, up.w);
}
