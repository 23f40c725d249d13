/** Slot and position of a row: the last token of its slot. An empty slot wraps to a position that marks padding. */
fn placeOf(row: u32) -> vec2u {
  let slot = rows[row].x;
  return vec2u(slot, slots[slot].length - 1u);
}
