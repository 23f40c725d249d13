// The rollouts of a step of a run on the server, page by page.

import type { RolloutsPage } from '../../server/runs/views.ts'
import type { GroupRecord } from '../../workers/protocol.ts'
import { ask } from './ask.ts'
import { api } from './client.ts'

const PER_PAGE = 64

export async function fetchGroups(run: string, step: number, split: 'train' | 'eval'): Promise<GroupRecord[]> {
  const groups: GroupRecord[] = []
  for (let offset: number | null = 0; offset !== null; ) {
    const url = api.runs[':id'].rollouts.$url({ param: { id: run } })
    url.search = `step=${step}&split=${split}&offset=${offset}&limit=${PER_PAGE}`
    const page: RolloutsPage = await ask<RolloutsPage>(url)
    groups.push(...page.groups)
    offset = page.next
  }
  return groups
}
