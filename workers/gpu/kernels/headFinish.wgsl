// One thread per quad of the unit gradient [Nt, WIDTH_QUADS]. `weightQuad` stands in front.

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  let i = (group.y * groups.x + group.x) * 256u + thread;
  if (i >= arrayLength(&unit)) { return; }
  let row = i / WIDTH_QUADS;
  let quad = i % WIDTH_QUADS;
  let token = min(targets[row], VOCABULARY - 1u);
  unit[i] = (weightQuad(token * WIDTH_QUADS + quad) - unit[i] / states[row].y) * temperatureInverses[row];
}
