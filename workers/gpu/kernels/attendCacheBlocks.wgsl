// Block after block through workgroup memory: every thread writes its part of each product there, and one thread per team
// and head follows the softmax.

  // The thread that follows the softmax of one team's keys for one head.
  let softmaxHead = thread / PARTS;
  let softmaxPart = thread % PARTS;
  var top = LOWEST;
  var sum = 0.0f;
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
    // for u < UNROLL
    // for g < CHUNK
    area[(($u * CHUNK + $g) * PARTS + part) * PADDED + lane] = partial[$u * CHUNK + $g];
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
    workgroupBarrier();

    if (thread < CHUNK * PARTS) {
      var score: array<f32, UNROLL>;
      var highest = top;
      // for u < UNROLL
      {
        let at = (($u * CHUNK + softmaxHead) * PARTS + softmaxPart) * PADDED;
        var total = area[at];
        for (var i = 1u; i < LANES; i++) {
          total += area[at + i];
        }
        let seen = block * BLOCK + $u * PARTS + softmaxPart <= position;
        score[$u] = select(LOWEST, total, seen);
        highest = max(highest, score[$u]);
      }
      // end
      let scale = exp(top - highest);
      scales[thread] = scale;
      var added = 0.0f;
      // for u < UNROLL
      {
        let seen = block * BLOCK + $u * PARTS + softmaxPart <= position;
        let weight = select(0.0f, exp(score[$u] - highest), seen);
        weights[$u * CHUNK * PARTS + thread] = weight;
        added += weight;
      }
      // end
      sum = fma(sum, scale, added);
      top = highest;
    }
    workgroupBarrier();

    // for g < CHUNK
    {
      let scale = scales[$g * PARTS + part];
      // for c < VECTORS
      mixed[$g * VECTORS + $c] *= scale;
      // end
      // for u < UNROLL
      {
        let weight = vec4f(weights[($u * CHUNK + $g) * PARTS + part]);
        // for c < VECTORS
        mixed[$g * VECTORS + $c] = fma(weight, v[$u * VECTORS + $c], mixed[$g * VECTORS + $c]);
        // end
      }
      // end
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
  if (thread < CHUNK * PARTS) {
    tops[thread] = top;
    sums[thread] = sum;
  }
