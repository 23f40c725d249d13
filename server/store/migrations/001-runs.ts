// Runs, their attempts, and the index over their files.

import type { Migration } from './migration.ts'

export const runs: Migration = {
  name: '001-runs',
  async up(db) {
    await db.schema
      .createTable('run')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('project', 'text', (column) => column.notNull())
      .addColumn('owner', 'text', (column) => column.notNull())
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('target', 'text', (column) => column.notNull())
      .addColumn('config_json', 'text', (column) => column.notNull())
      .addColumn('labels_json', 'text', (column) => column.notNull())
      .addColumn('secrets_json', 'text', (column) => column.notNull())
      .addColumn('state', 'text', (column) => column.notNull())
      .addColumn('reason', 'text')
      .addColumn('attempt', 'bigint', (column) => column.notNull())
      .addColumn('step', 'bigint', (column) => column.notNull())
      .addColumn('max_steps', 'bigint', (column) => column.notNull())
      .addColumn('cancel', 'text')
      .addColumn('cloned_from', 'text')
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addColumn('updated_at', 'bigint', (column) => column.notNull())
      .addColumn('started_at', 'bigint')
      .addColumn('ended_at', 'bigint')
      .addColumn('deleted_at', 'bigint')
      .addColumn('bytes', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema.createIndex('run_by_project').on('run').columns(['project', 'id']).execute()
    await db.schema.createIndex('run_by_state').on('run').columns(['state', 'id']).execute()

    await db.schema
      .createTable('attempt')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('run_id', 'text', (column) => column.notNull())
      .addColumn('number', 'bigint', (column) => column.notNull())
      .addColumn('engine', 'text', (column) => column.notNull())
      .addColumn('engine_id', 'text')
      .addColumn('state', 'text', (column) => column.notNull())
      .addColumn('reason', 'text')
      .addColumn('exit_code', 'bigint')
      .addColumn('raw_json', 'text')
      .addColumn('from_step', 'bigint')
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addColumn('started_at', 'bigint')
      .addColumn('ended_at', 'bigint')
      .addUniqueConstraint('attempt_number', ['run_id', 'number'])
      .execute()
    await db.schema.createIndex('attempt_by_state').on('attempt').columns(['state', 'id']).execute()

    await db.schema
      .createTable('idempotency')
      .addColumn('caller', 'text', (column) => column.notNull())
      .addColumn('key', 'text', (column) => column.notNull())
      .addColumn('digest', 'text', (column) => column.notNull())
      .addColumn('run_id', 'text', (column) => column.notNull())
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('idempotency_key', ['caller', 'key'])
      .execute()

    await db.schema
      .createTable('event_file')
      .addColumn('run_id', 'text', (column) => column.primaryKey())
      .addColumn('seq', 'bigint', (column) => column.notNull())
      .addColumn('indexed_bytes', 'bigint', (column) => column.notNull())
      .addColumn('samples_bytes', 'bigint', (column) => column.notNull())
      .execute()

    await db.schema
      .createTable('event_mark')
      .addColumn('run_id', 'text', (column) => column.notNull())
      .addColumn('seq', 'bigint', (column) => column.notNull())
      .addColumn('byte_offset', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('event_mark_key', ['run_id', 'seq'])
      .execute()

    await db.schema
      .createTable('step_index')
      .addColumn('run_id', 'text', (column) => column.notNull())
      .addColumn('seq', 'bigint', (column) => column.notNull())
      .addColumn('attempt', 'bigint', (column) => column.notNull())
      .addColumn('step', 'bigint', (column) => column.notNull())
      .addColumn('kind', 'text', (column) => column.notNull())
      .addColumn('byte_offset', 'bigint', (column) => column.notNull())
      .addColumn('byte_length', 'bigint', (column) => column.notNull())
      .addColumn('items', 'bigint', (column) => column.notNull())
      .addColumn('superseded', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('step_index_key', ['run_id', 'seq'])
      .execute()
    await db.schema.createIndex('step_index_by_step').on('step_index').columns(['run_id', 'kind', 'step']).execute()

    await db.schema
      .createTable('artifact')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('run_id', 'text', (column) => column.notNull())
      .addColumn('attempt', 'bigint', (column) => column.notNull())
      .addColumn('kind', 'text', (column) => column.notNull())
      .addColumn('step', 'bigint', (column) => column.notNull())
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('bytes', 'bigint', (column) => column.notNull())
      .addColumn('sha256', 'text', (column) => column.notNull())
      .addColumn('place', 'text', (column) => column.notNull())
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addUniqueConstraint('artifact_name', ['run_id', 'kind', 'step', 'name'])
      .execute()

    await db.schema
      .createTable('measurement')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('target', 'text', (column) => column.notNull())
      .addColumn('model', 'text', (column) => column.notNull())
      .addColumn('backend', 'text', (column) => column.notNull())
      .addColumn('adapter', 'text', (column) => column.notNull())
      .addColumn('tokens_per_second', 'double precision', (column) => column.notNull())
      .addColumn('step_tokens_per_second', 'double precision', (column) => column.notNull())
      .addColumn('run_id', 'text')
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .execute()
    await db.schema.createIndex('measurement_by_model').on('measurement').columns(['target', 'model', 'id']).execute()
  },
}
