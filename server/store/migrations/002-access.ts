// Keys, signed-in pages, the audit log, sealed secrets.

import type { Migration } from './migration.ts'

export const access: Migration = {
  name: '002-access',
  async up(db) {
    await db.schema
      .createTable('access_key')
      .addColumn('name', 'text', (column) => column.primaryKey())
      .addColumn('project', 'text', (column) => column.notNull())
      .addColumn('digest', 'text', (column) => column.notNull().unique())
      .addColumn('hint', 'text', (column) => column.notNull())
      .addColumn('scopes_json', 'text', (column) => column.notNull())
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addColumn('created_by', 'text', (column) => column.notNull())
      .addColumn('expires_at', 'bigint')
      .addColumn('revoked_at', 'bigint')
      .addColumn('last_used_at', 'bigint')
      .execute()

    await db.schema
      .createTable('access_session')
      .addColumn('digest', 'text', (column) => column.primaryKey())
      .addColumn('key_name', 'text')
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addColumn('expires_at', 'bigint', (column) => column.notNull())
      .addColumn('last_used_at', 'bigint', (column) => column.notNull())
      .execute()

    await db.schema
      .createTable('audit')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('at', 'bigint', (column) => column.notNull())
      .addColumn('key_name', 'text', (column) => column.notNull())
      .addColumn('project', 'text', (column) => column.notNull())
      .addColumn('action', 'text', (column) => column.notNull())
      .addColumn('path', 'text', (column) => column.notNull())
      .addColumn('status', 'bigint', (column) => column.notNull())
      .addColumn('request_id', 'text', (column) => column.notNull())
      .addColumn('address', 'text', (column) => column.notNull())
      .execute()

    await db.schema
      .createTable('server_fact')
      .addColumn('name', 'text', (column) => column.primaryKey())
      .addColumn('value', 'text', (column) => column.notNull())
      .execute()

    await db.schema
      .createTable('secret_set')
      .addColumn('project', 'text', (column) => column.notNull())
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('variables_json', 'text', (column) => column.notNull())
      .addColumn('key_id', 'text', (column) => column.notNull())
      .addColumn('nonce', 'text', (column) => column.notNull())
      .addColumn('sealed', 'text', (column) => column.notNull())
      .addColumn('version', 'bigint', (column) => column.notNull())
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addColumn('updated_at', 'bigint', (column) => column.notNull())
      .addColumn('updated_by', 'text', (column) => column.notNull())
      .addPrimaryKeyConstraint('secret_set_name', ['project', 'name'])
      .execute()
  },
}
