// Who may do what, and who did what.

export interface AccessKeyRow {
  /** A slug, used once: the name of a key that is gone is never given again. */
  name: string
  project: string
  /** SHA-256 of the key, hexadecimal. */
  digest: string
  /** The first letters of the key, to tell it from another one. */
  hint: string
  scopes_json: string
  created_at: number
  created_by: string
  expires_at: number | null
  revoked_at: number | null
  /** To the minute. */
  last_used_at: number | null
}

/** A page that is signed in. */
export interface AccessSessionRow {
  /** SHA-256 of the cookie, hexadecimal. */
  digest: string
  /** The key that it was signed in with; null for the owner of this machine. */
  key_name: string | null
  created_at: number
  expires_at: number
  last_used_at: number
}

/** One write that somebody was let in to make. */
export interface AuditRow {
  id: string
  at: number
  key_name: string
  project: string
  /** `POST /api/runs/:id/cancel`. */
  action: string
  /** The path as it was asked for, without what follows `?`. */
  path: string
  status: number
  request_id: string
  /** Where the request came from, as the socket says it. */
  address: string
}

/** What the server keeps of itself. */
export interface ServerFactRow {
  name: string
  value: string
}

/** Variables of a project under one name, sealed. */
export interface SecretSetRow {
  project: string
  name: string
  /** The names of the variables: no secret. */
  variables_json: string
  /** Of the key that seals it. */
  key_id: string
  /** Base64. */
  nonce: string
  /** AES-256-GCM of the variables as JSON, tag at the end; base64. */
  sealed: string
  version: number
  created_at: number
  updated_at: number
  updated_by: string
}

export interface AccessTables {
  access_key: AccessKeyRow
  access_session: AccessSessionRow
  audit: AuditRow
  server_fact: ServerFactRow
  secret_set: SecretSetRow
}
