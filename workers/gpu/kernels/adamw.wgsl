// Every workgroup adds the parts of the squared norm up in the same order, by `sumOfThreads`, then steps through its share
// of the quads.

struct Step {
  sgd: u32,
  learningRate: f32,
  /** 1 − learning rate · weight decay. */
  keep: f32,
  epsilon: f32,
  beta1: f32,
  beta1Rest: f32,
  beta2: f32,
  beta2Rest: f32,
  /** 1 − βᵗ. */
  correction1: f32,
  correction2: f32,
  /** 0: no clipping. */
  maxNorm: f32,
  pad: u32,
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<storage, read> parts: array<f32>;
@group(0) @binding(2) var<storage, read_write> gradient: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> flat_: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> first: array<vec4f>;
@group(0) @binding(5) var<storage, read_write> second: array<vec4f>;
@group(0) @binding(6) var<storage, read_write> report: array<vec4f>;

const EXPONENT = 0x7f800000u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, @builtin(local_invocation_index) thread: u32) {
  let square = sumOfThreads(parts[thread], thread);
  if ((bitcast<u32>(square) & EXPONENT) == EXPONENT) {
    if (group.x == 0u && thread == 0u) { report[0] = vec4f(square, 0.0, 0.0, 0.0); }
    return;
  }
  let norm = sqrt(square);
  var clip = 1.0;
  if (step.maxNorm > 0.0) { clip = min(1.0, step.maxNorm / (norm + 1e-6)); }
  if (group.x == 0u && thread == 0u) { report[0] = vec4f(norm, clip, 0.0, 0.0); }
  for (var i = group.x * 256u + thread; i < arrayLength(&flat_); i += groups.x * 256u) {
    let g = gradient[i] * clip;
    var direction = g;
    if (step.sgd == 0u) {
      let m = step.beta1 * first[i] + step.beta1Rest * g;
      let v = step.beta2 * second[i] + step.beta2Rest * g * g;
      first[i] = m;
      second[i] = v;
      direction = (m / step.correction1) / (sqrt(v / step.correction2) + step.epsilon);
    }
    flat_[i] = flat_[i] * step.keep - step.learningRate * direction;
    gradient[i] = vec4f(0.0);
  }
}
