// The uniform of one key and position.

// The first word of Threefry-2x32 with 20 rounds (Salmon et al. 2011).
fn threefry(key0: u32, key1: u32, counter0: u32, counter1: u32) -> u32 {
  const ROTATIONS = array<u32, 8>(13u, 15u, 26u, 6u, 17u, 29u, 16u, 24u);
  let keys = array<u32, 3>(key0, key1, 0x1bd11bdau ^ key0 ^ key1);
  var x0 = counter0 + key0;
  var x1 = counter1 + key1;
  for (var round = 0u; round < 20u; round++) {
    let rotation = ROTATIONS[round % 8u];
    x0 += x1;
    x1 = ((x1 << rotation) | (x1 >> (32u - rotation))) ^ x0;
    if (round % 4u == 3u) {
      let injection = (round + 1u) / 4u;
      x0 += keys[injection % 3u];
      x1 += keys[(injection + 1u) % 3u] + injection;
    }
  }
  return x0;
}

// The upper 24 bits over 2^24 are exact in f32 and below 1; zero becomes half of the smallest step.
fn uniformOf(word: u32) -> f32 {
  return max(f32(word >> 8u), 0.5) * 0x1p-24;
}
