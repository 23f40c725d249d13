// One workgroup per row. The row's quads (four logits) are cut into as many stretches as there are teams of eight threads; a
// team reads its stretch together, 128 bytes at a time. Sums run over a thread's quads, the team, the stretches, always in
// that order. The drawn stretch is then cut among all threads, and the drawn part walked by one.
//
// Constants: THREADS, VOCABULARY, STRIDE_QUADS, SEEN_WORDS. `Slot` stands in front.

@group(0) @binding(0) var<storage, read> logits: array<vec4f>;
@group(0) @binding(1) var<storage, read> rows: array<vec2u>;
@group(0) @binding(2) var<uniform> rule: Rule;
@group(0) @binding(3) var<storage, read_write> slots: array<Slot>;
@group(0) @binding(4) var<storage, read_write> seen: array<u32>;
@group(0) @binding(5) var<storage, read_write> drawn: array<vec4u>;

const NOTHING = 0xffffffffu;
const NOT_FINITE = 0xfffffffeu;
const EXPONENT = 0x7f800000u;
// Stands for a logit that is not there.
const LOWEST = -3.0e38f;
// e^-87 is the last normal number; what is smaller weighs nothing.
const FLOOR = -87.0f;

const QUADS = (VOCABULARY + 3u) / 4u;
const WHOLE_QUADS = VOCABULARY / 4u;
const TEAM = 8u;
const STRETCHES = THREADS / TEAM;
const QUADS_PER_STRETCH = (QUADS + STRETCHES - 1u) / STRETCHES;
const QUADS_PER_PART = (QUADS_PER_STRETCH + THREADS - 1u) / THREADS;

struct Statistics {
  largest: f32,
  sum: f32,
  /** Σ s·e^s, s the distance from `largest` over the temperature. */
  weighted: f32,
  finite: u32,
  /** Of the scores, which are the logits after the penalty. */
  best: f32,
  bestToken: u32,
  /** The least of the threads' best scores: at least as many scores are not below it as there are threads. */
  leastBest: f32,
}

struct Candidate {
  score: f32,
  token: u32,
  /** The least of the best scores of the threads that were merged. */
  leastBest: f32,
}

var<workgroup> opened: u32;
var<workgroup> threadStatistics: array<vec4f, THREADS>;
var<workgroup> threadBest: array<Candidate, THREADS>;
var<workgroup> stretchStatistics: array<vec4f, STRETCHES>;
var<workgroup> stretchBest: array<Candidate, STRETCHES>;
var<workgroup> statistics: Statistics;
var<workgroup> stretchSum: array<f32, STRETCHES>;
var<workgroup> chosenStretch: vec2u;
var<workgroup> partSum: array<f32, THREADS>;
var<workgroup> sixteenParts: array<f32, THREADS / 16u>;

// The same in every thread of the row.
var<private> rowQuad: u32;
var<private> seenWord: u32;
var<private> best: f32;
// A token stays when its key is above `edge`, or equal to it with an id of at most `edgeToken`.
var<private> edge: u32;
var<private> edgeToken: u32;

fn truncates() -> bool {
  return (rule.topK > 0u && rule.topK < VOCABULARY) || rule.topP < 1.0 || rule.minP > 0.0;
}

fn logitsOf(quad: u32, end: u32) -> vec4f {
  let value = logits[rowQuad + min(quad, QUADS - 1u)];
  if (quad < min(end, WHOLE_QUADS)) {
    return value;
  }
  let ids = 4u * quad + vec4u(0u, 1u, 2u, 3u);
  return select(vec4f(LOWEST), value, (ids < vec4u(VOCABULARY)) & vec4<bool>(quad < end));
}

// Keskar et al. 2019.
fn penalised(value: vec4f, quad: u32) -> vec4f {
  let bits = seen[seenWord + min(quad / 8u, SEEN_WORDS - 1u)] >> (4u * (quad % 8u));
  let known = ((vec4u(bits) >> vec4u(0u, 1u, 2u, 3u)) & vec4u(1u)) == vec4u(1u);
  return select(value, select(value * rule.penalty, value * rule.penaltyInverse, value > vec4f(0.0)), known);
}

fn scoresOf(quad: u32, end: u32) -> vec4f {
  let value = logitsOf(quad, end);
  if (rule.penalty == 1.0) {
    return value;
  }
  return penalised(value, quad);
}

// Ordered as the numbers are, -0 as 0.
fn keysOf(score: vec4f) -> vec4u {
  let bits = bitcast<vec4u>(score);
  let signed = bits ^ select(vec4u(0x80000000u), vec4u(0xffffffffu), bits > vec4u(0x80000000u));
  return select(signed, vec4u(0x80000000u), bits == vec4u(0x80000000u));
}

fn scoreOfKey(key: u32) -> f32 {
  return bitcast<f32>(key ^ select(0xffffffffu, 0x80000000u, key >= 0x80000000u));
}

fn weightsOf(score: vec4f, top: f32) -> vec4f {
  let distance = (score - top) * rule.temperatureInverse;
  return select(exp(max(distance, vec4f(FLOOR))), vec4f(0.0), distance < vec4f(FLOOR));
}

fn keptWeights(quad: u32, end: u32) -> vec4f {
  let score = scoresOf(quad, end);
  let weights = weightsOf(score, best);
  if (!truncates()) {
    return weights;
  }
  let keys = keysOf(score);
  let ids = 4u * quad + vec4u(0u, 1u, 2u, 3u);
  let kept = (keys > vec4u(edge)) | ((keys == vec4u(edge)) & (ids <= vec4u(edgeToken)));
  return select(vec4f(0.0), weights, kept);
}

fn add4(v: vec4f) -> f32 {
  return ((v.x + v.y) + v.z) + v.w;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
  let row = group.x;
  let slot = rows[row].x;
  if (thread == 0u) {
    opened = slots[slot].open;
  }
  if (workgroupUniformLoad(&opened) == 0u) {
    if (thread == 0u) {
      drawn[row] = vec4u(NOTHING, 0u, 0u, 0u);
    }
    return;
  }
  rowQuad = row * STRIDE_QUADS;
  seenWord = slot * SEEN_WORDS;
  let whole = surveyed(thread);
  if (whole.finite == 0u) {
    if (thread == 0u) {
      slots[slot].open = 0u;
      drawn[row] = vec4u(NOT_FINITE, 0u, 0u, 0u);
    }
    return;
  }
  best = whole.best;
  var token = whole.bestToken;
  if (rule.greedy == 0u) {
    if (truncates()) {
      truncate(thread, whole);
    }
    token = choose(thread, whole, slots[slot].key0, slots[slot].key1, slots[slot].length);
  }
  if (thread != 0u) {
    return;
  }
  let logSum = log(whole.sum);
  let logProbability = (logits[rowQuad + token / 4u][token % 4u] - whole.largest) * rule.temperatureInverse - logSum;
  let entropy = logSum - whole.weighted / whole.sum;
  let length = slots[slot].length + 1u;
  var open = select(0u, 1u, length < slots[slot].limit);
  for (var i = 0u; i < rule.stopCount; i++) {
    if (rule.stops[i / 4u][i % 4u] == token) {
      open = 0u;
    }
  }
  slots[slot].token = token;
  slots[slot].length = length;
  slots[slot].open = open;
  seen[seenWord + token / 32u] |= 1u << (token % 32u);
  drawn[row] = vec4u(token, bitcast<u32>(logProbability), bitcast<u32>(entropy), open);
}
