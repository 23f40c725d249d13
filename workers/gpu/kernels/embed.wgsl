// One thread per quad of x [M, WIDTH_QUADS]. `tokenOf` and `weightQuad` stand in front.

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  let i = (group.y * groups.x + group.x) * 256u + thread;
  if (i >= arrayLength(&x)) { return; }
  let token = min(tokenOf(i / WIDTH_QUADS), VOCABULARY - 1u);
  x[i] = weightQuad(token * WIDTH_QUADS + i % WIDTH_QUADS);
}
