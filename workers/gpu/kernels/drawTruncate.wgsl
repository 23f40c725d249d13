// What top-k, top-p and min-p leave. Tokens are ordered by score, equal scores by id, the lower first. Top-k keeps the first
// k; top-p (Holtzman et al. 2020) of these the first that together weigh p of them; min-p of these what weighs at least so
// much of the best. The last token that is kept is `edge`, its key, and `edgeToken`.

const CANDIDATES = 256u;

var<workgroup> taken: atomic<u32>;
var<workgroup> sorted: array<u32, CANDIDATES>;
var<workgroup> sortedWeights: array<f32, CANDIDATES>;
var<workgroup> equalsMass: f32;
// The last token that is kept, among the candidates.
var<workgroup> chosen: vec4u;

// The whole row, no further than `window` below the best.
fn byScore(top: f32, window: f32) -> Cut {
  // Not so narrow that the bins of neighbouring numbers could not be told apart.
  let all = max(window, max(abs(top) * 0x1p-14, 0x1p-60));
  let scale = bitcast<f32>(bitcast<u32>(f32(BINS - 2u) / all) & 0x7f800000u);
  let width = bitcast<f32>((254u << 23u) - bitcast<u32>(scale));
  return Cut(SCORES, 0u, NOTHING, 0u, 0u, scale, width, floor(top * scale));
}

fn byKey(low: u32, high: u32) -> Cut {
  let bits = 32u - countLeadingZeros(high - low);
  return Cut(KEYS, low, high, max(bits, 10u) - 10u, 0u, 0.0, 0.0, 0.0);
}

fn byId(key: u32, shift: u32, firstId: u32) -> Cut {
  return Cut(IDS, key, key, shift, firstId, 0.0, 0.0, 0.0);
}

// How far below the best top-p can cut: whatever weighs less than that weighs less than 1 - p together.
fn farthestOf(total: f32) -> f32 {
  let weightless = 0.5 * (1.0 - rule.topP) * total / f32(VOCABULARY);
  return min(-FLOOR, -log(max(weightless, 1e-37))) / rule.temperatureInverse;
}

// Every token of the span by its rank.
fn cutAmongFew(thread: u32, kind: u32, goal: f32, found: Span, weigh: bool) -> f32 {
  if (thread == 0u) {
    atomicStore(&taken, 0u);
  }
  workgroupBarrier();
  let stretch = thread / TEAM;
  let end = min((stretch + 1u) * QUADS_PER_STRETCH, QUADS);
  var above = 0.0;
  for (var quad = stretch * QUADS_PER_STRETCH + thread % TEAM; quad < end; quad += 4u * TEAM) {
    var scores: array<vec4f, 4>;
    for (var i = 0u; i < 4u; i++) {
      scores[i] = scoresOf(quad + i * TEAM, end);
    }
    for (var i = 0u; i < 4u; i++) {
      let ids = 4u * (quad + i * TEAM) + vec4u(0u, 1u, 2u, 3u);
      let keys = keysOf(scores[i]);
      let here = stays(keys, ids) & (keys >= vec4u(found.low));
      if (any(here)) {
        for (var j = 0u; j < 4u; j++) {
          if (here[j] && keys[j] <= found.high) {
            let at = atomicAdd(&taken, 1u);
            if (at < CANDIDATES) {
              atomicStore(&bins[at], keys[j]);
              atomicStore(&bins[CANDIDATES + at], ids[j]);
            }
          }
        }
        if (weigh) {
          above += add4(select(vec4f(0.0), weightsOf(scores[i], best), here & (keys > vec4u(found.high))));
        }
      }
    }
  }
  let mass = sumOfThreads(thread, above);
  let count = min(atomicLoad(&taken), CANDIDATES);
  for (var i = thread; i < count; i += THREADS) {
    let key = atomicLoad(&bins[i]);
    let token = atomicLoad(&bins[CANDIDATES + i]);
    var rank = 0u;
    for (var j = 0u; j < count; j++) {
      let other = atomicLoad(&bins[j]);
      rank += select(0u, 1u, other > key || (other == key && atomicLoad(&bins[CANDIDATES + j]) < token));
    }
    sorted[rank] = i;
    sortedWeights[rank] = weightOf(scoreOfKey(key));
  }
  workgroupBarrier();
  if (thread == 0u) {
    // Few enough for one thread.
    var kept = mass;
    var last = 0u;
    for (var i = 0u; i < count; i++) {
      last = i;
      kept += sortedWeights[i];
      if (select(kept >= goal, found.before + i + 1u >= u32(goal), kind == COUNT)) {
        break;
      }
    }
    let at = sorted[last];
    chosen = vec4u(atomicLoad(&bins[at]), atomicLoad(&bins[CANDIDATES + at]), bitcast<u32>(kept), 0u);
  }
  let result = workgroupUniformLoad(&chosen);
  edge = result.x;
  edgeToken = result.y;
  return bitcast<f32>(result.z);
}

// Cuts behind the token at which the goal is reached, counted in tokens for top-k and in weight for top-p: histograms, each
// of what the last one found, by score, then by key, and by id where more tokens are equal than can be ranked. `known`:
// what all tokens weigh, below zero where that must be found. Returns what is kept weighs, below zero where nothing is cut.
fn cutBy(thread: u32, kind: u32, whole: Statistics, known: f32) -> f32 {
  var total = known;
  // Without a histogram everything lies above its keys, and is added up.
  var how = select(SCORES, NONE, kind == MASS && known < 0.0);
  var cut = byKey(0u, 0u);
  if (kind == COUNT) {
    // Nothing weighs anything beyond the first; and each thread brought one of its scores.
    let window = -FLOOR / rule.temperatureInverse;
    cut = byScore(whole.best, select(window, min(window, whole.best - whole.leastBest), rule.topK <= THREADS));
  } else if (known >= 0.0) {
    cut = byScore(whole.best, farthestOf(known));
  }
  var found = Span(0u, 0u, 0u, 0u, 0u, 0u);
  var idsBefore = 0u;
  var staying = 0.0;
  var done = false;
  for (var round = 0u; !done; round++) {
    let mass = tally(thread, cut, how != SCORES && (kind == MASS || rule.topP < 1.0));
    if (how == NONE) {
      total = mass;
      how = SCORES;
      cut = byScore(whole.best, farthestOf(total));
      continue;
    }
    let goal = select(rule.topP * total, f32(rule.topK), kind == COUNT);
    if (how == IDS && (cut.shift > 0u)) {
      let weight = weightOf(scoreOfKey(found.low));
      staying = goal - f32(found.before);
      if (kind == MASS) {
        staying = f32(found.members);
        if (weight > 0.0) {
          staying = clamp(ceil((goal - mass) / weight), 1.0, staying);
        }
      }
      if (thread == 0u) {
        equalsMass = mass + staying * weight;
      }
    }
    let before = select(found.before, idsBefore, how == IDS);
    let next = seek(
      thread, select(kind, COUNT, how == IDS), select(goal, staying, how == IDS), mass, before, cut, round > 2u);
    if (how == IDS) {
      idsBefore = next.before;
      done = next.single > 0u;
      if (done) {
        edge = found.low;
        edgeToken = cut.firstId + next.bin;
        total = workgroupUniformLoad(&equalsMass);
      }
      cut = byId(found.low, 0u, next.bin << 8u);
    } else {
      found = next;
      done = found.members <= CANDIDATES;
      if (found.members == 0u) {
        total = -1.0;
      } else if (done) {
        total = cutAmongFew(thread, kind, goal, found, rule.topP < 1.0);
      } else if (found.high > found.low) {
        how = KEYS;
        cut = byKey(found.low, found.high);
      } else {
        how = IDS;
        cut = byId(found.low, 8u, 0u);
      }
    }
  }
  return total;
}

fn truncate(thread: u32, whole: Statistics) {
  edge = 0u;
  edgeToken = NOTHING;
  var total = select(-1.0, whole.sum, rule.penalty == 1.0);
  for (var kind = COUNT; kind <= MASS; kind++) {
    let limitsK = (rule.topK > 0u) && (rule.topK < VOCABULARY);
    let limitsP = (rule.topP < 1.0);
    if (select(limitsP, limitsK, kind == COUNT)) {
      let kept = cutBy(thread, kind, whole, total);
      total = select(total, kept, kept >= 0.0);
    }
  }
  raiseToMinP(whole.best);
}
