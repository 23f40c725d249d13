// One invocation per block of eight quads, which it keeps in registers.

const TINY = 0x0d800000u;
const HUGE = 0x7e000000u;
const NOT_A_NUMBER = 0x7fc00000u;

// 1 / x rounded to nearest, for the bits of an x from TINY to HUGE; division itself may be off by some units.
fn reciprocal(x: u32) -> f32 {
  let mantissa = (x & 0x7fffffu) | 0x800000u;
  var quotient = u32(0x1p24 / bitcast<f32>((x & 0x7fffffu) | 0x3f800000u));
  // 2^47 - quotient · mantissa, which is small: its low 32 bits are all of it.
  var rest = bitcast<i32>(0u - quotient * mantissa);
  while (rest < 0) {
    quotient--;
    rest += i32(mantissa);
  }
  while (rest >= i32(mantissa)) {
    quotient++;
    rest -= i32(mantissa);
  }
  if (2 * rest > i32(mantissa)) {
    quotient++;
  }
  return bitcast<f32>(((253u - (x >> 23u)) << 23u) + (quotient - 0x800000u));
}

fn levelsOf(bits: vec4u, perLevel: f32) -> vec4u {
  let levels = vec4u(vec4i(clamp(round(bitcast<vec4f>(bits) * perLevel), vec4f(BOTTOM), vec4f(TOP))));
  return select(levels, vec4u(0u), perLevel == 0.0);
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) {
  let row = id.x / (QUADS / 8u);
  if (row >= place.rows) {
    return;
  }
  let first = 8u * (id.x % (QUADS / 8u));
  let block = ((place.first + row * place.step) * QUADS + first) / 8u;
  var magnitudes = vec4u(0u);
  // for i < EIGHT
  let bits$i = bitsOf(row, first + $i);
  magnitudes = max(magnitudes, bits$i & vec4u(0x7fffffffu));
  // end
  let largest = max(max(magnitudes.x, magnitudes.y), max(magnitudes.z, magnitudes.w));
  // A block of zeros, or one that holds no number, has a scale that says so.
  var scale = select(NOT_A_NUMBER, 0u, largest < TINY);
  var perLevel = 0.0;
  if (largest >= TINY && largest < HUGE) {
    CHOOSE
  }
  scales[block] = scale;
  // for i < EIGHT
  let levels$i = levelsOf(bits$i, perLevel);
  // end
  STORE
}
