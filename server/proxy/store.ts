// The proxy's rows in the server's store.

import type { Kysely } from 'kysely'
import type { Database } from '../store/tables/index.ts'
import type { ProxyAdapterRow, ProxyUsageRow } from '../store/tables/proxy.ts'
import type { AdapterRow, AdapterStore } from './adapters/store.ts'
import type { UsageQuery, UsageStore } from './usage.ts'
import type { UsageView } from './views.ts'

export class StoredAdapters implements AdapterStore {
  constructor(private readonly db: Kysely<Database>) {}

  async list(): Promise<AdapterRow[]> {
    const rows = await this.db.selectFrom('proxy_adapter').selectAll().orderBy('id').execute()
    return rows.map((row: ProxyAdapterRow) => ({
      id: row.id,
      project: row.project,
      name: row.name,
      version: Number(row.version),
      servedName: row.served_name,
      baseModel: row.base_model,
      rank: Number(row.rank),
      bytes: Number(row.bytes),
      sha256: row.sha256,
      createdAt: Number(row.created_at),
    }))
  }

  async add(row: AdapterRow) {
    await this.db
      .insertInto('proxy_adapter')
      .values({
        id: row.id,
        project: row.project,
        name: row.name,
        version: row.version,
        served_name: row.servedName,
        base_model: row.baseModel,
        rank: row.rank,
        bytes: row.bytes,
        sha256: row.sha256,
        created_at: row.createdAt,
      })
      .execute()
  }

  async remove(id: string) {
    await this.db.deleteFrom('proxy_adapter').where('id', '=', id).execute()
  }
}

const SUMS = ['requests', 'failed', 'prompt_tokens', 'completion_tokens', 'estimated'] as const

export class StoredUsage implements UsageStore {
  constructor(private readonly db: Kysely<Database>) {}

  async add(rows: readonly UsageView[]) {
    await this.db.transaction().execute(async (transaction) => {
      for (const row of rows) {
        await transaction
          .insertInto('proxy_usage')
          .values(stored(row))
          .onConflict((conflict) =>
            conflict
              .columns(['day', 'project', 'key_name', 'model'])
              .doUpdateSet((eb) =>
                Object.fromEntries(
                  SUMS.map((name) => [name, eb(eb.ref(`proxy_usage.${name}`), '+', eb.ref(`excluded.${name}`))]),
                ),
              ),
          )
          .execute()
      }
    })
  }

  async read({ from, to, key, project }: UsageQuery): Promise<UsageView[]> {
    let query = this.db.selectFrom('proxy_usage').selectAll().where('day', '>=', from).where('day', '<=', to)
    if (key !== undefined) query = query.where('key_name', '=', key)
    if (project !== undefined) query = query.where('project', '=', project)
    const rows = await query.orderBy('day').orderBy('project').orderBy('key_name').orderBy('model').execute()
    return rows.map((row) => ({
      day: row.day,
      project: row.project,
      key: row.key_name,
      model: row.model,
      requests: Number(row.requests),
      failed: Number(row.failed),
      promptTokens: Number(row.prompt_tokens),
      completionTokens: Number(row.completion_tokens),
      estimated: Number(row.estimated),
    }))
  }
}

function stored(row: UsageView): ProxyUsageRow {
  return {
    day: row.day,
    project: row.project,
    key_name: row.key,
    model: row.model,
    requests: row.requests,
    failed: row.failed,
    prompt_tokens: row.promptTokens,
    completion_tokens: row.completionTokens,
    estimated: row.estimated,
  }
}
