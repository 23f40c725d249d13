// How to draw, the same for every row.

struct Rule {
  temperatureInverse: f32,
  topP: f32,
  topK: u32,
  minP: f32,
  penalty: f32,
  penaltyInverse: f32,
  greedy: u32,
  stopCount: u32,
  stops: array<vec4u, 4>,
}
