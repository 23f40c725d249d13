// One workgroup per row. A row's sum runs over the quads of a thread, then, by `highestOf` and `totalOf`, over the threads.

@group(0) @binding(0) var<storage, read_write> chunk: array<vec4f>;
@group(0) @binding(1) var<storage, read> targets: array<u32>;
@group(0) @binding(2) var<storage, read> temperatureInverses: array<f32>;
// The chunk's first column.
@group(0) @binding(3) var<uniform> first: vec4u;
@group(0) @binding(4) var<storage, read_write> states: array<vec4f>;
@group(0) @binding(5) var<storage, read_write> rescales: array<f32>;

// Stands for a column that is not there, and for a maximum before the first.
const LOWEST = -3.0e38f;
// e^-87 is the last normal number.
const FLOOR = -87.0f;
const EXPONENT = 0x7f800000u;

var<workgroup> before: vec4f;

fn columnsOf(quad: u32) -> vec4u {
  return first.x + 4u * quad + vec4u(0u, 1u, 2u, 3u);
}

fn logitsOf(value: vec4f, quad: u32, temperatureInverse: f32) -> vec4f {
  return select(vec4f(LOWEST), value * temperatureInverse, columnsOf(quad) < vec4u(VOCABULARY));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  let row = group.y * groups.x + group.x;
  if (row >= arrayLength(&states)) { return; }
  let base = row * COLUMN_QUADS;
  let temperatureInverse = temperatureInverses[row];

  var largest4 = vec4f(LOWEST);
  var bits4 = vec4u(0u);
  for (var q = thread; q < COLUMN_QUADS; q += THREADS) {
    let logits = logitsOf(chunk[base + q], q, temperatureInverse);
    largest4 = max(largest4, logits);
    bits4 = max(bits4, bitcast<vec4u>(logits) & vec4u(0x7fffffffu));
  }
  let finite = max(max(bits4.x, bits4.y), max(bits4.z, bits4.w)) < EXPONENT;
  let own = vec2f(max(max(largest4.x, largest4.y), max(largest4.z, largest4.w)), select(1.0, 0.0, finite));
  if (thread == 0u) {
    before = select(states[row], vec4f(LOWEST, 0.0, 0.0, 0.0), first.x == 0u);
  }
  let highest = highestOf(own, thread);
  let top = vec2f(max(before.x, highest.x), highest.y);
  let largest = top.x;
  // The target's logit is read before the row is overwritten.
  let target_ = targets[row];
  var targetLogit = before.w;
  let here = target_ - first.x;
  if (thread == 0u && target_ >= first.x && here < 4u * COLUMN_QUADS) {
    targetLogit = chunk[base + here / 4u][here % 4u] * temperatureInverse;
  }
  workgroupBarrier();

  var sum4 = vec4f(0.0);
  var weighted4 = vec4f(0.0);
  for (var q = thread; q < COLUMN_QUADS; q += THREADS) {
    let s = max(logitsOf(chunk[base + q], q, temperatureInverse) - largest, vec4f(FLOOR));
    let weights = select(vec4f(0.0), exp(s), columnsOf(q) < vec4u(VOCABULARY));
    chunk[base + q] = weights;
    sum4 += weights;
    weighted4 = fma(weights, s, weighted4);
  }
  let sums = vec2f((sum4.x + sum4.y) + (sum4.z + sum4.w), (weighted4.x + weighted4.y) + (weighted4.z + weighted4.w));
  let total = totalOf(sums, thread);
  if (thread != 0u) { return; }
  // What was summed about the old maximum moves to the new one: s falls by the step for every column.
  let step = max(before.x - largest, FLOOR);
  let decay = select(exp(step), 0.0, first.x == 0u);
  var sum = fma(before.y, decay, total.x);
  // Maxima pass over numbers that are not finite; the sum tells of them from here on.
  if (top.y > 0.0) {
    var notANumber = 0x7fc00000u;
    sum = bitcast<f32>(notANumber);
  }
  states[row] = vec4f(largest, sum, fma(before.z + before.y * step, decay, total.y), targetLogit);
  rescales[row] = decay;
}
