// Where in the order of tokens something is reached: a histogram of the row in workgroup memory, then one of the bin where
// it is reached, until that holds few tokens. Counts are integers, weights are added up in the order of threads.

const COUNT = 0u;
const MASS = 1u;
// Bins of equal width in score, of equal numbers of keys, and of ids among equal scores.
const SCORES = 0u;
const KEYS = 1u;
const IDS = 2u;
const NONE = 3u;
const BINS = 1024u;
const BINS_PER_THREAD = BINS / THREADS;
const THREADS_PER_GROUP = THREADS / 16u;

struct Cut {
  how: u32,
  /** The keys from which and to which tokens are counted. */
  low: u32,
  high: u32,
  /** Of KEYS and IDS: a bin holds 2^shift. */
  shift: u32,
  firstId: u32,
  /** Of SCORES: bins to one of score, a power of two; its inverse; the bin of the best. */
  scale: f32,
  width: f32,
  top: f32,
}

struct Span {
  low: u32,
  high: u32,
  /** Tokens before the span, and in it. */
  before: u32,
  members: u32,
  bin: u32,
  /** 1 where a bin holds one id or one key. */
  single: u32,
}

struct Reached {
  bin: u32,
  before: f32,
  hit: bool,
}

var<workgroup> bins: array<atomic<u32>, BINS>;
var<workgroup> groupAmounts: array<vec3f, 16>;
var<workgroup> span: Span;
var<workgroup> massBefore: f32;

fn keyOf(score: f32) -> u32 {
  return keysOf(vec4f(score)).x;
}

fn weightOf(score: f32) -> f32 {
  return weightsOf(vec4f(score), best).x;
}

fn stays(keys: vec4u, ids: vec4u) -> vec4<bool> {
  return (keys > vec4u(edge)) | ((keys == vec4u(edge)) & (ids <= vec4u(edgeToken)));
}

// BINS where a token is not counted.
fn binsOf(score: vec4f, keys: vec4u, ids: vec4u, cut: Cut) -> vec4u {
  if (cut.how == SCORES) {
    let least = (cut.top - f32(BINS + 1u)) * cut.width;
    return min(vec4u(vec4f(cut.top) - floor(max(score, vec4f(least)) * cut.scale)), vec4u(BINS));
  }
  let inside = (keys >= vec4u(cut.low)) & (keys <= vec4u(cut.high));
  let place = select(vec4u(cut.high) - keys, ids - vec4u(cut.firstId), cut.how == IDS) >> vec4u(cut.shift);
  return select(vec4u(BINS), min(place, vec4u(BINS)), inside);
}

// Fills the bins. Returns what the tokens above `cut.high` weigh; 0 where `weigh` is not asked for.
fn tally(thread: u32, cut: Cut, weigh: bool) -> f32 {
  for (var i = thread; i < BINS; i += THREADS) {
    atomicStore(&bins[i], 0u);
  }
  workgroupBarrier();
  let stretch = thread / TEAM;
  let end = min((stretch + 1u) * QUADS_PER_STRETCH, QUADS);
  var mass = 0.0;
  for (var quad = stretch * QUADS_PER_STRETCH + thread % TEAM; quad < end; quad += 4u * TEAM) {
    // Written so that a compiler may load four at once.
    var scores: array<vec4f, 4>;
    for (var i = 0u; i < 4u; i++) {
      scores[i] = scoresOf(quad + i * TEAM, end);
    }
    for (var i = 0u; i < 4u; i++) {
      let ids = 4u * (quad + i * TEAM) + vec4u(0u, 1u, 2u, 3u);
      let keys = keysOf(scores[i]);
      let here = stays(keys, ids);
      let places = select(vec4u(BINS), binsOf(scores[i], keys, ids, cut), here);
      if (any(places < vec4u(BINS))) {
        for (var j = 0u; j < 4u; j++) {
          if (places[j] < BINS) {
            atomicAdd(&bins[places[j]], 1u);
          }
        }
      }
      let above = here & (keys > vec4u(cut.high));
      if (weigh && any(above)) {
        mass += add4(select(vec4f(0.0), weightsOf(scores[i], best), above));
      }
    }
  }
  return sumOfThreads(thread, mass);
}

fn sumOfThreads(thread: u32, value: f32) -> f32 {
  partSum[thread] = value;
  workgroupBarrier();
  if (thread < STRETCHES) {
    var sum = 0.0;
    for (var i = 0u; i < TEAM; i++) {
      sum += partSum[thread * TEAM + i];
    }
    stretchSum[thread] = sum;
  }
  workgroupBarrier();
  if (thread == 0u) {
    var sum = 0.0;
    for (var i = 0u; i < STRETCHES; i++) {
      sum += stretchSum[i];
    }
    massBefore = sum;
  }
  return workgroupUniformLoad(&massBefore);
}

// Of a bin: its tokens, the most and the least that they can weigh.
fn amountsOf(bin: u32, cut: Cut, kind: u32) -> vec3f {
  let count = f32(atomicLoad(&bins[bin]));
  if (kind == COUNT || count == 0.0) {
    return vec3f(count, 0.0, 0.0);
  }
  let ends = keysOfBins(bin, bin, cut);
  return vec3f(count, count * weightOf(scoreOfKey(ends.y)), count * weightOf(scoreOfKey(ends.x)));
}

// The least and the greatest key of a run of bins that hold tokens.
fn keysOfBins(first: u32, last: u32, cut: Cut) -> vec2u {
  if (cut.how == SCORES) {
    let lowest = keyOf((cut.top - f32(last)) * cut.width);
    let highest = keyOf((cut.top - f32(first) + 1.0) * cut.width) - 1u;
    return vec2u(lowest, max(highest, keyOf((cut.top - f32(first)) * cut.width)));
  }
  let most = cut.high - (first << cut.shift);
  return vec2u(cut.high - min(cut.high - cut.low, (last << cut.shift) | ((1u << cut.shift) - 1u)), most);
}

fn entry(level: u32, index: u32, cut: Cut, kind: u32) -> vec3f {
  if (level == 0u) {
    return groupAmounts[index];
  }
  if (level == 1u) {
    return threadStatistics[index].xyz;
  }
  return amountsOf(index, cut, kind);
}

// The first bin at which `base` and the amounts of the bins up to it reach the goal, or the last that holds tokens.
fn reach(part: u32, base: f32, goal: f32, cut: Cut, kind: u32) -> Reached {
  var result = Reached(0u, 0.0, false);
  var sums = vec2f(base, 0.0);
  var first = 0u;
  var size = 16u;
  for (var level = 0u; level < 3u; level++) {
    var picked = first;
    var atPicked = sums;
    var hit = false;
    for (var i = first; i < first + size && !hit; i++) {
      let amounts = entry(level, i, cut, kind);
      if (amounts.x > 0.0) {
        picked = i;
        atPicked = sums;
        sums += vec2f(amounts[part], amounts.x);
        hit = sums.x >= goal;
      }
    }
    sums = atPicked;
    result.hit = select(result.hit, hit, level == 0u);
    size = select(BINS_PER_THREAD, THREADS_PER_GROUP, level == 0u);
    first = picked * size;
    result.bin = picked;
  }
  result.before = sums.y;
  return result;
}

// The bins at which the goal can be reached; of weights, which bins only bound, several unless `narrow`.
fn seek(thread: u32, kind: u32, goal: f32, mass: f32, before: u32, cut: Cut, narrow: bool) -> Span {
  var amounts = vec3f(0.0);
  for (var i = 0u; i < BINS_PER_THREAD; i++) {
    amounts += amountsOf(thread * BINS_PER_THREAD + i, cut, kind);
  }
  threadStatistics[thread] = vec4f(amounts, 0.0);
  workgroupBarrier();
  if (thread < 16u) {
    amounts = vec3f(0.0);
    for (var i = 0u; i < THREADS_PER_GROUP; i++) {
      amounts += threadStatistics[thread * THREADS_PER_GROUP + i].xyz;
    }
    groupAmounts[thread] = amounts;
  }
  workgroupBarrier();
  if (thread == 0u) {
    let start = reach(kind, select(mass, f32(before), kind == COUNT), goal, cut, kind);
    var last = start;
    if (kind == MASS && !narrow) {
      last = reach(2u, mass, goal, cut, kind);
    }
    let keys = keysOfBins(start.bin, last.bin, cut);
    let members = u32(last.before - start.before) + atomicLoad(&bins[last.bin]);
    span = Span(keys.x, keys.y, before + u32(start.before), members, start.bin, select(0u, 1u, cut.how != SCORES && cut.shift == 0u));
    if (kind == COUNT && !start.hit) {
      span.members = 0u;
    }
  }
  return workgroupUniformLoad(&span);
}
