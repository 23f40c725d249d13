const HEAD_VECTORS: u32 = HEAD_WIDTH / 4u;
const PAIRS: u32 = HEAD_WIDTH / 8u; // vectors in half a head
const INVERSE_WIDTH: f32 = 1.0f / f32(HEAD_WIDTH);

struct Halves {
  first: vec4f,
  second: vec4f,
}
