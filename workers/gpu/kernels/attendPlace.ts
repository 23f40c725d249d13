// Where a row stands in the cache: by a table, or by the state of its slot.

import type { Declared } from '../kernel.ts'
import rowsText from './attendPlaceRows.wgsl?raw'
import stateText from './attendPlaceState.wgsl?raw'
import slotText from './slot.wgsl?raw'

/**
 * `rows`: bound as [rows] of (slot, position); a position of S or more marks padding, which reads and writes no cache.
 * `slots`: bound as rows and slots; the position is that of the slot's last token, `slots[rows[r].x].length − 1`.
 */
export type Place = 'rows' | 'slots'

export function placeText(place: Place): string {
  return place === 'slots' ? `${slotText}\n${stateText}` : rowsText
}

export function placeBindings(place: Place): Declared[] {
  const rows: Declared = ['rows', 'read', 'array<vec2u>']
  return place === 'slots' ? [rows, ['slots', 'read', 'array<Slot>']] : [rows]
}
