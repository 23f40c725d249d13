// One pass over the whole row: maximum, Σe^s, Σs·e^s, the best score, whether all is finite.

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
