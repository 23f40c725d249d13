// Ids of rows: ULIDs, which sort by the time at which they were made, also within one millisecond.

import { monotonicFactory } from 'ulid'

export const newId: () => string = monotonicFactory()

/** Upper-case Crockford base 32, 26 characters, and nothing else: safe as a file name. */
export const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/
