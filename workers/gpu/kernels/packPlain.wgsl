// One invocation per four numbers.
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let row = id.x / QUADS;
  if (row >= place.rows) {
    return;
  }
  let quad = id.x % QUADS;
  words[(place.first + row * place.step) * QUADS + quad] = packed(bitsOf(row, quad));
}
