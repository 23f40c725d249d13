// One token for every open row, out of the logits in workgroup memory: `draw`'s rule without truncation and penalty. A row's
// quads are cut into DRAWERS stretches, one a thread; sums run over a stretch, then over the stretches, always in that order.

const STRETCH: u32 = (LOGIT_QUADS + DRAWERS - 1u) / DRAWERS;
const BELOW_ALL: f32 = -3.0e38f;
const EXPONENT: u32 = 0x7f800000u;
// e^-87 is the last normal number; what is smaller weighs nothing.
const FLOOR: f32 = -87.0f;

/** Of each stretch: the largest logit, and whether all are finite. */
var<workgroup> tops: array<vec2f, ROWS * DRAWERS>;
/** Σe^s and Σs·e^s, s the distance from the row's largest over the temperature. */
var<workgroup> masses: array<vec2f, ROWS * DRAWERS>;

fn logitsOf(row: u32, quad: u32) -> vec4f {
  let ids = 4u * quad + vec4u(0u, 1u, 2u, 3u);
  return select(vec4f(BELOW_ALL), qkv[row * WIDE + min(quad, LOGIT_QUADS - 1u)], ids < vec4u(VOCABULARY));
}

fn distances(row: u32, quad: u32, largest: f32) -> vec4f {
  return (logitsOf(row, quad) - largest) * rule.temperatureInverse;
}

fn weightsOf(distance: vec4f) -> vec4f {
  return select(exp(max(distance, vec4f(FLOOR))), vec4f(), distance < vec4f(FLOOR));
}

fn drawRows(at: u32, thread: u32) {
  let row = min(thread / DRAWERS, ROWS - 1u);
  let stretch = thread % DRAWERS;
  let inside = thread < ROWS * DRAWERS;
  let first = stretch * STRETCH;
  if (inside) {
    var largest = BELOW_ALL;
    var bits = 0u;
    for (var i = 0u; i < STRETCH; i++) {
      let x = logitsOf(row, first + i);
      largest = max(largest, max(max(x.x, x.y), max(x.z, x.w)));
      // Numbers that are not finite compare as they like: their bits tell.
      let sizes = bitcast<vec4u>(x) & vec4u(0x7fffffffu);
      bits = max(bits, max(max(sizes.x, sizes.y), max(sizes.z, sizes.w)));
    }
    tops[thread] = vec2f(largest, select(0.0f, 1.0f, bits < EXPONENT));
  }
  workgroupBarrier();
  var largest = BELOW_ALL;
  var finite = 1.0f;
  for (var i = 0u; i < DRAWERS; i++) {
    let of_ = tops[row * DRAWERS + i];
    largest = max(largest, of_.x);
    finite = min(finite, of_.y);
  }
  if (inside) {
    var mass = vec2f();
    for (var i = 0u; i < STRETCH; i++) {
      let distance = distances(row, first + i, largest);
      let weights_ = weightsOf(distance);
      mass += vec2f(dot(weights_, vec4f(1.0f)), dot(weights_, max(distance, vec4f(FLOOR))));
    }
    masses[thread] = mass;
  }
  workgroupBarrier();
  if (inside && stretch == 0u) {
    drawn[at + row] = drawRow(row, largest, finite);
  }
}

fn drawRow(row: u32, largest: f32, finite: f32) -> vec4u {
  if (state[row].open == 0u) {
    return vec4u(NOTHING, 0u, 0u, 0u);
  }
  if (finite == 0.0f) {
    state[row].open = 0u;
    return vec4u(NOT_FINITE, 0u, 0u, 0u);
  }
  var mass = vec2f();
  for (var i = 0u; i < DRAWERS; i++) {
    mass += masses[row * DRAWERS + i];
  }
  var token: u32;
  if (rule.greedy != 0u) {
    token = likeliest(row, largest);
  } else {
    token = chosen(row, largest, mass.x);
  }
  let logSum = log(mass.x);
  let logProbability = (qkv[row * WIDE + token / 4u][token % 4u] - largest) * rule.temperatureInverse - logSum;
  let entropy = logSum - mass.y / mass.x;
  let length = state[row].length + 1u;
  var open = select(0u, 1u, length < state[row].limit);
  for (var i = 0u; i < rule.stopCount; i++) {
    if (rule.stops[i / 4u][i % 4u] == token) {
      open = 0u;
    }
  }
  state[row].token = token;
  state[row].length = length;
  state[row].open = open;
  return vec4u(token, bitcast<u32>(logProbability), bitcast<u32>(entropy), open);
}

/** Ties go to the lower id. */
fn likeliest(row: u32, largest: f32) -> u32 {
  for (var i = 0u; i < DRAWERS; i++) {
    if (tops[row * DRAWERS + i].x == largest) {
      for (var token = 4u * i * STRETCH; token < VOCABULARY; token++) {
        if (qkv[row * WIDE + token / 4u][token % 4u] == largest) {
          return token;
        }
      }
    }
  }
  return 0u;
}

/** Inverse of the cumulative distribution in the order of ids: the first token at which it reaches u. */
fn chosen(row: u32, largest: f32, total: f32) -> u32 {
  let goal = uniformOf(threefry(state[row].key0, state[row].key1, state[row].length, 0u)) * total;
  var stretch = 0u;
  var before = 0.0f;
  var reached = 0.0f;
  // The last sum that still adds something stands in where rounding keeps the goal out of reach.
  for (var i = 0u; i < DRAWERS && reached < goal; i++) {
    let next = reached + masses[row * DRAWERS + i].x;
    if (next > reached) {
      stretch = i;
      before = reached;
      reached = next;
    }
  }
  reached = before;
  var token = 0u;
  for (var i = 0u; i < STRETCH && reached < goal; i++) {
    let quad = stretch * STRETCH + i;
    let weights_ = weightsOf(distances(row, quad, largest));
    for (var j = 0u; j < 4u && reached < goal; j++) {
      let next = reached + weights_[j];
      if (next > reached) {
        token = 4u * quad + j;
        reached = next;
      }
    }
  }
  return token;
}
