// Who asks, as far as runs are concerned. Whoever lets requests in says it.

export interface Caller {
  /** The id of a key, or `browser` for a page of this server. */
  id: string
  project: string
  /** Sees the runs of every project. */
  operator: boolean
}

export const LOCAL_CALLER: Caller = { id: 'browser', project: 'default', operator: true }
