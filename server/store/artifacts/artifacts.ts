// Where the files of a run are kept that somebody may want to take away: adapters, checkpoints, configs. Known by a place
// that the store itself has made up; a place is never what a user wrote.

export interface ArtifactStore {
  /** Keeps a file of this machine. The same place again replaces it. */
  put(place: string, path: string): Promise<{ bytes: number; sha256: string }>
  /** Its bytes from `start` up to `end` (not included), or all. Throws a sentence where it is gone. */
  read(place: string, range?: { start: number; end: number }): Promise<ReadableStream<Uint8Array>>
  /** Nothing to remove is no error. */
  remove(place: string): Promise<void>
  /** Throws a sentence where files cannot be kept. */
  check(): Promise<void>
}

/** Of a place: segments of letters, digits, `_`, `-` and single points, no folder above. */
export const PLACE = /^[A-Za-z0-9_-][A-Za-z0-9._-]*(\/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$/
