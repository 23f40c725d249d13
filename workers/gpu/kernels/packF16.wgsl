// IEEE half precision, ties to even; larger magnitudes than 65504 become the largest, what is no number none.
fn packed(bits: vec4u) -> vec2u {
  let sign = (bits >> vec4u(16u)) & vec4u(0x8000u);
  let magnitude = bits & vec4u(0x7fffffffu);
  let normal = (magnitude + vec4u(0xfffu) + ((magnitude >> vec4u(13u)) & vec4u(1u)) - vec4u(0x38000000u)) >> vec4u(13u);
  let small = magnitude < vec4u(0x38800000u);
  // Below 2^-14 the unit is 2^-24.
  let units = vec4u(round(bitcast<vec4f>(select(vec4u(0u), magnitude, small)) * 0x1p24));
  let large = select(vec4u(0x7bffu), vec4u(0x7e00u), magnitude >= vec4u(0x7f800000u));
  let half = sign | select(select(normal, units, small), large, magnitude > vec4u(0x477fe000u));
  return half.xz | (half.yw << vec2u(16u));
}
