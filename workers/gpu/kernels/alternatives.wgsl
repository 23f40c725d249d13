// The likeliest tokens of a row, likeliest first, equal ones by their ids. One workgroup per row; thread t reads every
// THREADS-th quad from t on and keeps its best. The best of all is named; then all threads together look for the next
// best among what its thread reads.
//
// Constants: THREADS, VOCABULARY, STRIDE_QUADS, COUNT. `Rule` stands in front.

@group(0) @binding(0) var<storage, read> logits: array<vec4f>;
@group(0) @binding(1) var<uniform> rule: Rule;
@group(0) @binding(2) var<storage, read> drawn: array<vec4u>;
@group(0) @binding(3) var<storage, read_write> named: array<vec2u>;

const NOTHING = 0xffffffffu;
const NOT_FINITE = 0xfffffffeu;
const LOWEST = -3.0e38f;
const QUADS = (VOCABULARY + 3u) / 4u;

struct Place {
  logit: f32,
  token: u32,
}

var<workgroup> bests: array<Place, THREADS>;
var<workgroup> tree: array<Place, THREADS>;

fn precedes(a: Place, b: Place) -> bool {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// The first of a quad's tokens behind `last`, or `best` where that comes first.
fn firstOf(best: Place, rowQuad: u32, quad: u32, last: Place) -> Place {
  var result = best;
  let values = logits[rowQuad + quad];
  for (var i = 0u; i < 4u; i++) {
    let place = Place(values[i], 4u * quad + i);
    if (place.token < VOCABULARY && precedes(last, place) && precedes(place, result)) {
      result = place;
    }
  }
  return result;
}

fn firstOfAll(thread: u32, place: Place) -> Place {
  tree[thread] = place;
  for (var half = THREADS / 2u; half > 0u; half /= 2u) {
    workgroupBarrier();
    if (thread < half && precedes(tree[thread + half], tree[thread])) {
      tree[thread] = tree[thread + half];
    }
  }
  return workgroupUniformLoad(&tree[0]);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
  let row = group.x;
  let token = drawn[row].x;
  if (token >= NOT_FINITE) {
    return;
  }
  let rowQuad = row * STRIDE_QUADS;
  let none = Place(LOWEST, NOTHING);
  var last = Place(-LOWEST, 0u);
  var best = none;
  for (var quad = thread; quad < QUADS; quad += THREADS) {
    best = firstOf(best, rowQuad, quad, last);
  }
  bests[thread] = best;
  let logit = logits[rowQuad + token / 4u][token % 4u];
  let logProbability = bitcast<f32>(drawn[row].y);
  for (var i = 0u; i < COUNT; i++) {
    last = firstOfAll(thread, bests[thread]);
    if (thread == 0u) {
      let logp = logProbability + (last.logit - logit) * rule.temperatureInverse;
      named[row * COUNT + i] = vec2u(last.token, bitcast<u32>(logp));
    }
    if (last.token == NOTHING) {
      continue;
    }
    let owner = (last.token / 4u) % THREADS;
    best = none;
    for (var quad = owner + thread * THREADS; quad < QUADS; quad += THREADS * THREADS) {
      best = firstOf(best, rowQuad, quad, last);
    }
    best = firstOfAll(thread, best);
    if (thread == owner) {
      bests[thread] = best;
    }
  }
}
