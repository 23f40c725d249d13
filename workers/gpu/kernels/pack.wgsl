// A stretch of rows from the checkpoint into the format of weightFormat.ts. What decides a bit is integer arithmetic or a
// single product, which WGSL rounds to nearest: devices agree.
//
// Constants: COLUMNS (of the source), QUADS (of a packed row, fours). Elsewhere: rawQuad, widened, the binding of words.

struct Place {
  rows: u32,
  /** Row r of the source becomes row first + r · step. */
  first: u32,
  step: u32,
  pad: u32,
}

@group(0) @binding(0) var<storage, read> source: array<u32>;
@group(0) @binding(1) var<uniform> place: Place;

// Four numbers as the bits of f32, zeros beyond the source's columns.
fn bitsOf(row: u32, quad: u32) -> vec4u {
  let value = widened(rawQuad(row * COLUMNS + 4u * quad));
  if (4u * QUADS == COLUMNS) {
    return value;
  }
  return select(vec4u(0u), value, 4u * quad + vec4u(0u, 1u, 2u, 3u) < vec4u(COLUMNS));
}
