    // The largest magnitude stands at level -8, whatever its sign. Of the scales around that, the one with the smallest
    // squared error; errors are counted in units of 2^-13 of that magnitude, as integers.
    var positive = vec4<bool>(false);
    // for i < EIGHT
    positive |= bits$i == vec4u(largest);
    // end
    let toward = select(1.0, -1.0, any(positive));
    let inverse = toward * reciprocal(largest);
    // for i < EIGHT
    let part$i = round(bitcast<vec4f>(bits$i) * inverse * 8192.0);
    // end
    var least = 0xffffffffu;
    var step = 0.0;
    for (var k = 0u; k < STEP_COUNT; k++) {
      let width = STEPS[k];
      let perWidth = PER_STEP[k];
      var errors = vec4i(0);
      // for i < EIGHT
      {
        let rest = vec4i(part$i - clamp(round(part$i * perWidth), vec4f(BOTTOM), vec4f(TOP)) * width);
        errors += rest * rest;
      }
      // end
      let error = u32(errors.x) + u32(errors.y) + u32(errors.z) + u32(errors.w);
      if (error < least) {
        least = error;
        step = width;
        perLevel = inverse * (perWidth * 8192.0);
      }
    }
    scale = bitcast<u32>(toward * bitcast<f32>(largest) * (step * 0x1p-13));
