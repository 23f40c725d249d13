// A disk without room, told from other failures.

/** Thrown where nothing more can be written; what was written before is whole. */
export class DiskFull extends Error {
  override name = 'DiskFull'
}

export function isNoRoom(error: unknown): boolean {
  const { code } = (error ?? {}) as NodeJS.ErrnoException
  return code === 'ENOSPC' || code === 'EDQUOT' || code === 'EFBIG'
}
