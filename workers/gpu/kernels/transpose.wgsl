// One thread for four rows and four columns of K: bits are moved, numbers are not looked at.

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  let i = (group.y * groups.x + group.x) * 64u + thread;
  if (i >= QUADS * FOURS) { return; }
  let quad = i / FOURS;
  let four = i % FOURS;
  var from_: array<vec4u, 4>;
  for (var j = 0u; j < 4u; j++) {
    let row = select(4u * quad + j, 8u * (quad / 2u) + 2u * j + quad % 2u, ALTERNATING);
    from_[j] = fourOf(row * FOURS + four);
  }
  if (HALF) {
    for (var h = 0u; h < 2u; h++) {
      let w = vec4u(from_[0][h], from_[1][h], from_[2][h], from_[3][h]);
      result[(2u * four + h) * QUADS + quad] = vec4u(
        (w.x & 0xffffu) | (w.y << 16u),
        (w.z & 0xffffu) | (w.w << 16u),
        (w.x >> 16u) | (w.y & 0xffff0000u),
        (w.z >> 16u) | (w.w & 0xffff0000u),
      );
    }
    return;
  }
  for (var k = 0u; k < 4u; k++) {
    result[(4u * four + k) * QUADS + quad] = vec4u(from_[0][k], from_[1][k], from_[2][k], from_[3][k]);
  }
}
