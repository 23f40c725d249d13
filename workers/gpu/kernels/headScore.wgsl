// From a row's state to log-probability and entropy.

@group(0) @binding(0) var<storage, read> states: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> scores: array<vec2f>;

const EXPONENT = 0x7f800000u;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  let row = (group.y * groups.x + group.x) * 64u + thread;
  if (row >= arrayLength(&scores)) { return; }
  let state = states[row];
  // Not every driver's log of such a number is one.
  if ((bitcast<u32>(state.y) & EXPONENT) == EXPONENT) {
    scores[row] = vec2f(state.y);
    return;
  }
  let logSum = log(state.y);
  scores[row] = vec2f(state.w - state.x - logSum, logSum - state.z / state.y);
}
