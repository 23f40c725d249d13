    scale = bitcast<u32>(bitcast<f32>(largest) * INT8_SCALE);
    perLevel = reciprocal(largest) * 127.0;
