// One workgroup per row. The row's quads (four logits) are cut into as many stretches as there are teams of eight threads; a
// team reads its stretch together, 128 bytes at a time. Sums run over a thread's quads, the team, the stretches, always in
// that order. The drawn stretch is then cut among all threads, and the drawn part walked by one.
//
// Constants: THREADS, VOCABULARY, STRIDE_QUADS, SEEN_WORDS.

struct Rule {
  temperatureInverse: f32,
  topP: f32,
  topK: u32,
  minP: f32,
  penalty: f32,
  penaltyInverse: f32,
  greedy: u32,
  stopCount: u32,
  stops: array<vec4u, 4>,
}

struct Slot {
  token: u32,
  length: u32,
  limit: u32,
  open: u32,
  key0: u32,
  key1: u32,
  pad0: u32,
  pad1: u32,
}

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
var<workgroup> threadMeasure: array<vec3f, THREADS>;
var<workgroup> stretchMeasure: array<vec3f, STRETCHES>;
var<workgroup> measured: vec3f;
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

// ── The whole row once: maximum, sum, Σ s·e^s, the best score ───────────────────────────────────────────────────────

fn decay(from_: f32, to: f32) -> f32 {
  return max((from_ - to) * rule.temperatureInverse, FLOOR);
}

fn survey(thread: u32) {
  let stretch = thread / TEAM;
  let end = min((stretch + 1u) * QUADS_PER_STRETCH, QUADS);
  var largest = LOWEST;
  var sum = 0.0;
  var weighted = 0.0;
  var top = LOWEST;
  var topQuad = stretch * QUADS_PER_STRETCH;
  var bits = vec4u(0u);
  for (var quad = stretch * QUADS_PER_STRETCH + thread % TEAM; quad < end; quad += 4u * TEAM) {
    let a = logitsOf(quad, end);
    let b = logitsOf(quad + TEAM, end);
    let c = logitsOf(quad + 2u * TEAM, end);
    let d = logitsOf(quad + 3u * TEAM, end);
    let sizes = max(
      max(bitcast<vec4u>(a) & vec4u(0x7fffffffu), bitcast<vec4u>(b) & vec4u(0x7fffffffu)),
      max(bitcast<vec4u>(c) & vec4u(0x7fffffffu), bitcast<vec4u>(d) & vec4u(0x7fffffffu)),
    );
    bits = max(bits, sizes);
    let highest4 = max(max(a, b), max(c, d));
    let highest = max(max(highest4.x, highest4.y), max(highest4.z, highest4.w));
    if (highest > largest) {
      let step = decay(largest, highest);
      weighted = (weighted + sum * step) * exp(step);
      sum *= exp(step);
      largest = highest;
    }
    let sa = max((a - largest) * rule.temperatureInverse, vec4f(FLOOR));
    let sb = max((b - largest) * rule.temperatureInverse, vec4f(FLOOR));
    let sc = max((c - largest) * rule.temperatureInverse, vec4f(FLOOR));
    let sd = max((d - largest) * rule.temperatureInverse, vec4f(FLOOR));
    let ea = exp(sa);
    let eb = exp(sb);
    let ec = exp(sc);
    let ed = exp(sd);
    sum += add4((ea + eb) + (ec + ed));
    weighted += add4(fma(ea, sa, eb * sb) + fma(ec, sc, ed * sd));
    if (rule.penalty == 1.0) {
      if (highest > top) {
        top = highest;
        topQuad = quad;
      }
    } else {
      let score4 = max(
        max(penalised(a, quad), penalised(b, quad + TEAM)),
        max(penalised(c, quad + 2u * TEAM), penalised(d, quad + 3u * TEAM)),
      );
      let score = max(max(score4.x, score4.y), max(score4.z, score4.w));
      if (score > top) {
        top = score;
        topQuad = quad;
      }
    }
  }
  // Numbers that are not finite compare as they like: their bits tell.
  let finite = max(max(bits.x, bits.y), max(bits.z, bits.w)) < EXPONENT;
  threadStatistics[thread] = vec4f(largest, sum, weighted, select(0.0, 1.0, finite));
  threadBest[thread] = Candidate(top, 0u, top);
  if (rule.greedy != 0u) {
    var token = NOTHING;
    for (var i = 4u; i > 0u; i--) {
      let quad = topQuad + (i - 1u) * TEAM;
      let equal = scoresOf(quad, end) == vec4f(top);
      for (var j = 4u; j > 0u; j--) {
        if (equal[j - 1u]) {
          token = 4u * quad + j - 1u;
        }
      }
    }
    threadBest[thread].token = token;
  }
}

fn better(a: Candidate, b: Candidate) -> Candidate {
  let leastBest = min(a.leastBest, b.leastBest);
  if (b.score > a.score || (b.score == a.score && b.token < a.token)) {
    return Candidate(b.score, b.token, leastBest);
  }
  return Candidate(a.score, a.token, leastBest);
}

fn merged(a: vec4f, largest: f32) -> vec3f {
  let step = decay(a.x, largest);
  return vec3f(a.y, a.z + a.y * step, 0.0) * exp(step);
}

fn surveyed(thread: u32) -> Statistics {
  survey(thread);
  workgroupBarrier();
  if (thread < STRETCHES) {
    var candidate = threadBest[thread * TEAM];
    var largest = threadStatistics[thread * TEAM].x;
    var finite = threadStatistics[thread * TEAM].w;
    for (var i = 1u; i < TEAM; i++) {
      candidate = better(candidate, threadBest[thread * TEAM + i]);
      largest = max(largest, threadStatistics[thread * TEAM + i].x);
      finite = min(finite, threadStatistics[thread * TEAM + i].w);
    }
    var total = vec3f(0.0);
    for (var i = 0u; i < TEAM; i++) {
      total += merged(threadStatistics[thread * TEAM + i], largest);
    }
    stretchStatistics[thread] = vec4f(largest, total.x, total.y, finite);
    stretchBest[thread] = candidate;
  }
  workgroupBarrier();
  if (thread == 0u) {
    var candidate = stretchBest[0];
    var largest = LOWEST;
    var finite = 1.0;
    for (var i = 0u; i < STRETCHES; i++) {
      candidate = better(candidate, stretchBest[i]);
      largest = max(largest, stretchStatistics[i].x);
      finite = min(finite, stretchStatistics[i].w);
    }
    var total = vec3f(0.0);
    for (var i = 0u; i < STRETCHES; i++) {
      total += merged(stretchStatistics[i], largest);
    }
    statistics = Statistics(largest, total.x, total.y, u32(finite), candidate.score, candidate.token, candidate.leastBest);
  }
  return workgroupUniformLoad(&statistics);
}

// ── Truncation ──────────────────────────────────────────────────────────────────────────────────────────────────────

const COUNT = 0u;
const MASS = 1u;
const TIES = 2u;
const EDGE = 3u;

fn tally(score: vec4f, quad: u32, kind: u32, limit: vec3u, tie: u32) -> vec3f {
  let keys = keysOf(score);
  var x = keys >= vec4u(limit.x);
  var y = keys >= vec4u(limit.y);
  var z = keys >= vec4u(limit.z);
  if (kind == TIES) {
    let ids = 4u * quad + vec4u(0u, 1u, 2u, 3u);
    let equal = keys == vec4u(tie);
    x = equal & (ids < vec4u(limit.x));
    y = equal & (ids < vec4u(limit.y));
    z = equal & (ids < vec4u(limit.z));
  }
  let none = vec4f(0.0);
  let one = vec4f(1.0);
  var amounts = one;
  if (kind == MASS || kind == EDGE) {
    amounts = weightsOf(score, best);
  }
  let counts = select(amounts, one, kind == EDGE);
  return vec3f(add4(select(none, counts, x)), add4(select(none, counts, y)), add4(select(none, amounts, z)));
}

// Three numbers at once: how many keys are at least limit[i] (COUNT), their weights (MASS), two counts and one weight
// (EDGE), or how many tokens below limit[i] have the key `tie` (TIES).
fn measure(thread: u32, kind: u32, limit: vec3u, tie: u32) -> vec3f {
  let stretch = thread / TEAM;
  let end = min((stretch + 1u) * QUADS_PER_STRETCH, QUADS);
  var total = vec3f(0.0);
  for (var quad = stretch * QUADS_PER_STRETCH + thread % TEAM; quad < end; quad += 4u * TEAM) {
    // Written so that a compiler may load four at once.
    for (var i = 0u; i < 4u; i++) {
      total += tally(scoresOf(quad + i * TEAM, end), quad + i * TEAM, kind, limit, tie);
    }
  }
  threadMeasure[thread] = total;
  workgroupBarrier();
  if (thread < STRETCHES) {
    var sum = vec3f(0.0);
    for (var i = 0u; i < TEAM; i++) {
      sum += threadMeasure[thread * TEAM + i];
    }
    stretchMeasure[thread] = sum;
  }
  workgroupBarrier();
  if (thread == 0u) {
    var sum = vec3f(0.0);
    for (var i = 0u; i < STRETCHES; i++) {
      sum += stretchMeasure[i];
    }
    measured = sum;
  }
  return workgroupUniformLoad(&measured);
}

// Top-k, top-p (Holtzman et al. 2020), then min-p; ties go to the lower id. Each looks for the largest number of so many
// bits that still satisfies: two bits a pass, from the highest. COUNT: the key that k tokens reach; MASS: the key above which
// p of the weight lies; TIES: the last id that stays among equals.
fn truncate(thread: u32, top: f32, leastBest: f32) {
  let limitsK = rule.topK > 0u && rule.topK < VOCABULARY;
  let limitsP = rule.topP < 1.0;
  var lowest = 0u;
  var lastToken = NOTHING;
  // Of the tokens at `lowest`, how many there are and how many stay.
  var tied = 0.0;
  var staying = 0.0;
  var total = 0.0;
  for (var kind = COUNT; kind <= TIES && (limitsK || limitsP); kind++) {
    // What is sought lies from `least` to `most`: a pass whose outcome follows from that is left out.
    var bits = 32u;
    var goal = f32(rule.topK);
    var least = 0u;
    var most = keysOf(vec4f(top)).x;
    if (kind == COUNT) {
      bits = select(0u, 32u, limitsK);
      least = select(0u, keysOf(vec4f(leastBest)).x, rule.topK <= THREADS);
    } else if (kind == MASS) {
      bits = select(0u, 32u, limitsP);
      goal = rule.topP * total;
      // Whatever weighs less than this weighs less than 1 - p together.
      let weightless = 0.5 * (1.0 - rule.topP) * total / f32(VOCABULARY);
      least = max(lowest, keysOf(vec4f(top + log(weightless) / rule.temperatureInverse)).x);
    } else {
      bits = select(0u, 18u, staying < tied);
      goal = staying;
      most = VOCABULARY;
    }
    var found = 0u;
    for (var shift = bits; shift > 0u; shift -= 2u) {
      let candidates = vec3u(found) | (vec3u(1u, 2u, 3u) << vec3u(shift - 2u));
      var holds = candidates <= vec3u(least);
      if (!all(holds | (candidates > vec3u(most)))) {
        let values = measure(thread, kind, candidates, lowest);
        holds |= select(values >= vec3f(goal), values < vec3f(goal), kind == TIES);
        holds &= candidates <= vec3u(most);
      }
      found = select(select(select(found, candidates.x, holds.x), candidates.y, holds.y), candidates.z, holds.z);
    }
    if (kind == TIES) {
      lastToken = select(NOTHING, found, bits > 0u);
    } else if (kind == COUNT || limitsP) {
      let at = measure(thread, EDGE, vec3u(found, found + 1u, found + 1u), 0u);
      var available = at.x - at.y;
      tied = available;
      var weight = 0.0;
      if (found > 0u) {
        weight = weightsOf(vec4f(scoreOfKey(found)), top).x;
      }
      if (kind == COUNT) {
        staying = select(0.0, goal - at.y, limitsK);
        total = at.z + staying * weight;
      } else {
        available = select(available, staying, found == lowest);
        staying = available;
        if (weight > 0.0 && available > 0.0) {
          staying = clamp(ceil((goal - at.z) / weight), 1.0, available);
        }
      }
      lowest = found;
    }
  }
  if (rule.minP > 0.0) {
    let key = keysOf(vec4f(min(top, top + log(rule.minP) / rule.temperatureInverse))).x;
    if (key > lowest) {
      lowest = key;
      lastToken = NOTHING;
    }
  }
  edge = lowest;
  edgeToken = lastToken;
}

// ── The draw ────────────────────────────────────────────────────────────────────────────────────────────────────────

// The first word of Threefry-2x32 with 20 rounds (Salmon et al. 2011).
fn threefry(key0: u32, key1: u32, counter0: u32, counter1: u32) -> u32 {
  const ROTATIONS = array<u32, 8>(13u, 15u, 26u, 6u, 17u, 29u, 16u, 24u);
  let keys = array<u32, 3>(key0, key1, 0x1bd11bdau ^ key0 ^ key1);
  var x0 = counter0 + key0;
  var x1 = counter1 + key1;
  for (var round = 0u; round < 20u; round++) {
    let rotation = ROTATIONS[round % 8u];
    x0 += x1;
    x1 = ((x1 << rotation) | (x1 >> (32u - rotation))) ^ x0;
    if (round % 4u == 3u) {
      let injection = (round + 1u) / 4u;
      x0 += keys[injection % 3u];
      x1 += keys[(injection + 1u) % 3u] + injection;
    }
  }
  return x0;
}

// The upper 24 bits over 2^24 are exact in f32 and below 1; zero becomes half of the smallest step.
fn uniformOf(word: u32) -> f32 {
  return max(f32(word >> 8u), 0.5) * 0x1p-24;
}

fn stretchSums(thread: u32, whole: Statistics) {
  if (truncates() || rule.penalty != 1.0) {
    let stretch = thread / TEAM;
    let end = min((stretch + 1u) * QUADS_PER_STRETCH, QUADS);
    var sum = 0.0;
    for (var quad = stretch * QUADS_PER_STRETCH + thread % TEAM; quad < end; quad += 4u * TEAM) {
      for (var i = 0u; i < 4u; i++) {
        sum += add4(keptWeights(quad + i * TEAM, end));
      }
    }
    partSum[thread] = sum;
    workgroupBarrier();
    if (thread < STRETCHES) {
      sum = 0.0;
      for (var i = 0u; i < TEAM; i++) {
        sum += partSum[thread * TEAM + i];
      }
      stretchSum[thread] = sum;
    }
  } else if (thread < STRETCHES) {
    let part = stretchStatistics[thread];
    stretchSum[thread] = part.y * exp(decay(part.x, whole.largest));
  }
}

// Inverse of the cumulative distribution in the order of ids: the first token at which it reaches u.
fn choose(thread: u32, whole: Statistics, key0: u32, key1: u32, position: u32) -> u32 {
  stretchSums(thread, whole);
  workgroupBarrier();
  if (thread == 0u) {
    var total = 0.0;
    for (var i = 0u; i < STRETCHES; i++) {
      total += stretchSum[i];
    }
    let goal = uniformOf(threefry(key0, key1, position, 0u)) * total;
    var before = 0.0;
    var reached = 0.0;
    var stretch = 0u;
    // The last sum that still adds something stands in where rounding keeps the goal out of reach.
    for (var i = 0u; i < STRETCHES && reached < goal; i++) {
      let next = reached + stretchSum[i];
      if (next > reached) {
        stretch = i;
        before = reached;
        reached = next;
      }
    }
    chosenStretch = vec2u(stretch, bitcast<u32>(goal - before));
  }
  let chosen = workgroupUniformLoad(&chosenStretch);
  let first = chosen.x * QUADS_PER_STRETCH;
  let end = min(first + QUADS_PER_STRETCH, QUADS);
  let goal = bitcast<f32>(chosen.y);
  let from_ = first + thread * QUADS_PER_PART;
  var sum = 0.0;
  for (var i = 0u; i < QUADS_PER_PART; i++) {
    if (from_ + i < end) {
      sum += add4(keptWeights(from_ + i, end));
    }
  }
  partSum[thread] = sum;
  workgroupBarrier();
  if (thread < THREADS / 16u) {
    sum = 0.0;
    for (var i = 0u; i < 16u; i++) {
      sum += partSum[16u * thread + i];
    }
    sixteenParts[thread] = sum;
  }
  workgroupBarrier();
  var token = 0u;
  if (thread == 0u) {
    var before = 0.0;
    var reached = 0.0;
    var sixteen = 0u;
    for (var i = 0u; i < THREADS / 16u && reached < goal; i++) {
      let next = reached + sixteenParts[i];
      if (next > reached) {
        sixteen = i;
        before = reached;
        reached = next;
      }
    }
    reached = before;
    var part = 16u * sixteen;
    for (var i = 0u; i < 16u && reached < goal; i++) {
      let next = reached + partSum[16u * sixteen + i];
      if (next > reached) {
        part = 16u * sixteen + i;
        before = reached;
        reached = next;
      }
    }
    reached = before;
    for (var i = 0u; i < QUADS_PER_PART && reached < goal; i++) {
      let quad = first + part * QUADS_PER_PART + i;
      if (quad < end) {
        let weights = keptWeights(quad, end);
        for (var j = 0u; j < 4u && reached < goal; j++) {
          let next = reached + weights[j];
          if (next > reached) {
            token = 4u * quad + j;
            reached = next;
          }
        }
      }
    }
  }
  return token;
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
      truncate(thread, whole.best, whole.leastBest);
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
