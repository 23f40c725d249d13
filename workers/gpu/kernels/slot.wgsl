/** The state of a sequence that decodes, kept in its slot. */
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
