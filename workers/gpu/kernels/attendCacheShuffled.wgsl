// Block after block without a barrier: the threads of a team add their parts of each product up by shuffles, and each of
// them follows the softmax of every head over its team's keys.

  var top = array<f32, CHUNK>();
  var sum = array<f32, CHUNK>();
  // for g < CHUNK
  top[$g] = LOWEST;
  // end
  for (var block = 0u; block < blocks; block++) {
    var partial = array<f32, UNROLL * CHUNK>();
    // for c < VECTORS
    // for g < CHUNK
    {
      let q = queries[$g * HEAD_STEP + $c * LANES + lane];
      // for u < UNROLL
      partial[$u * CHUNK + $g] = productOf(k[$u * VECTORS + $c], q, partial[$u * CHUNK + $g]);
      // end
    }
    // end
    // end
    let next = (block + 1u) * BLOCK + part;
    if (block + 1u < blocks) {
      // for u < UNROLL
      // for c < VECTORS
      k[$u * VECTORS + $c] = keyAt(slotBase, next + $u * PARTS, position, $c * LANES + lane);
      // end
      // end
    }
    // for u < UNROLL
    let seen$u = block * BLOCK + $u * PARTS + part <= position;
    // for g < CHUNK
    partial[$u * CHUNK + $g] = teamSum(partial[$u * CHUNK + $g], thread);
    // end
    // end
    // for g < CHUNK
    {
      var highest = top[$g];
      // for u < UNROLL
      highest = max(highest, select(LOWEST, partial[$u * CHUNK + $g], seen$u));
      // end
      let scale = exp(top[$g] - highest);
      var added = 0.0f;
      // for c < VECTORS
      mixed[$g * VECTORS + $c] *= scale;
      // end
      // for u < UNROLL
      {
        let weight = select(0.0f, exp(partial[$u * CHUNK + $g] - highest), seen$u);
        added += weight;
        // for c < VECTORS
        mixed[$g * VECTORS + $c] = fma(vec4f(weight), v[$u * VECTORS + $c], mixed[$g * VECTORS + $c]);
        // end
      }
      // end
      sum[$g] = fma(sum[$g], scale, added);
      top[$g] = highest;
    }
    // end
    if (block + 1u < blocks) {
      // for u < UNROLL
      // for c < VECTORS
      v[$u * VECTORS + $c] = valueAt(slotBase, next + $u * PARTS, position, $c * LANES + lane);
      // end
      // end
    }
  }
  if (lane == 0u) {
    // for g < CHUNK
    tops[$g * PARTS + part] = top[$g];
    sums[$g * PARTS + part] = sum[$g];
    // end
  }
