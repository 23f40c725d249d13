struct Slot {
  token: u32,
  length: u32,
  limit: u32,
  open: u32,
  key0: u32,
  key1: u32,
  pad0: u32,
  pad1: u32,
}

/** Slot and position of a row: the last token of its slot. An empty slot wraps to a position that marks padding. */
fn placeOf(row: u32) -> vec2u {
  let slot = rows[row].x;
  return vec2u(slot, slots[slot].length - 1u);
}
