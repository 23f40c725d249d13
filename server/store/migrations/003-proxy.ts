// Adapters that nodes are to serve, and usage.

import type { Migration } from './migration.ts'

export const proxy: Migration = {
  name: '003-proxy',
  async up(db) {
    await db.schema
      .createTable('proxy_adapter')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('project', 'text', (column) => column.notNull())
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('version', 'bigint', (column) => column.notNull())
      .addColumn('served_name', 'text', (column) => column.notNull().unique())
      .addColumn('base_model', 'text', (column) => column.notNull())
      .addColumn('rank', 'bigint', (column) => column.notNull())
      .addColumn('bytes', 'bigint', (column) => column.notNull())
      .addColumn('sha256', 'text', (column) => column.notNull())
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addUniqueConstraint('proxy_adapter_version', ['project', 'name', 'version'])
      .execute()

    await db.schema
      .createTable('proxy_usage')
      .addColumn('day', 'text', (column) => column.notNull())
      .addColumn('project', 'text', (column) => column.notNull())
      .addColumn('key_name', 'text', (column) => column.notNull())
      .addColumn('model', 'text', (column) => column.notNull())
      .addColumn('requests', 'bigint', (column) => column.notNull())
      .addColumn('failed', 'bigint', (column) => column.notNull())
      .addColumn('prompt_tokens', 'bigint', (column) => column.notNull())
      .addColumn('completion_tokens', 'bigint', (column) => column.notNull())
      .addColumn('estimated', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('proxy_usage_key', ['day', 'project', 'key_name', 'model'])
      .execute()
  },
}
