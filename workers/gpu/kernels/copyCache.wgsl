// Copies positions of one slot's keys and values to the same positions of another.

@compute @workgroup_size(256)
fn main(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) thread: u32,
) {
  let copy = copies[group.y]; // from slot, to slot, first position, count
  let source = (copy.x * POSITIONS + copy.z) * ROW_VECTORS;
  let to = (copy.y * POSITIONS + copy.z) * ROW_VECTORS;
  for (var i = group.x * 256u + thread; i < copy.w * ROW_VECTORS; i += groups.x * 256u) {
    keys[to + i] = keys[source + i];
    values[to + i] = values[source + i];
  }
}
