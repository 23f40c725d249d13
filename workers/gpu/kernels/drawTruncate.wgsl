// What top-k, top-p and min-p leave: `edge` and `edgeToken`, found by searching the bits of keys.

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
