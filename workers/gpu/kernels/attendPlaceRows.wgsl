/** Slot and position of a row; a position of POSITIONS or more marks padding. */
fn placeOf(row: u32) -> vec2u {
  return rows[row];
}
