// The token at which the cumulative weight reaches the uniform of the key and position.

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
