// The body of a submission: what every version of the API takes alike, and beside it what one version says in its own way.

import type { SlurmJobSpec } from './job.ts'

export function submission(spec: SlurmJobSpec, own: Record<string, unknown>) {
  return {
    script: spec.script,
    job: {
      name: spec.name,
      ...(spec.partition ? { partition: spec.partition } : {}),
      ...(spec.account ? { account: spec.account } : {}),
      tasks: spec.nodes * spec.tasksPerNode,
      tasks_per_node: spec.tasksPerNode,
      ...(spec.cpusPerTask ? { cpus_per_task: spec.cpusPerTask } : {}),
      ...(spec.nodelist ? { required_nodes: spec.nodelist.split(',') } : {}),
      ...(spec.exclude ? { excluded_nodes: spec.exclude.split(',') } : {}),
      current_working_directory: spec.workingDirectory,
      standard_output: spec.output,
      standard_error: spec.output,
      comment: spec.comment,
      requeue: spec.requeue,
      hold: spec.hold,
      ...own,
    },
  }
}
