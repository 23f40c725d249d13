// Reductions over neighbouring threads by subgroup shuffles, as text: a butterfly, whose order depends on the number of
// lanes alone and not, as that of `subgroupAdd` may, on the device; every thread gets the same bits.

export const ENABLE_SUBGROUPS = 'enable subgroups;'

export interface Reduction {
  /** Of the WGSL function (value: type, thread: u32) -> type. */
  name: string
  type: string
  /** Of a workgroup. */
  threads: number
  /** Threads that reduce together, neighbours; a power of two. */
  team: number
  /** Of those, neighbours that shuffles reach; a power of two. */
  lanes: number
  /** WGSL of two values made one; does not care which comes first. */
  combine: (a: string, b: string) => string
}

/**
 * Gives every thread of a team what its values reduce to. Called by all threads together, once per kernel: where a team is
 * wider than its lanes, workgroup memory and one barrier join them.
 */
export function shuffled({ name, type, threads, team, lanes, combine }: Reduction): string {
  const together = Math.min(lanes, team)
  const steps = Array.from(
    { length: Math.log2(together) },
    (_, i) => `  all = ${combine('all', `subgroupShuffleXor(all, ${2 ** i}u)`)};`,
  )
  const groups = team / together
  const joined =
    groups === 1
      ? []
      : [
          `  if (thread % ${together}u == 0u) { ${name}Parts[thread / ${together}u] = all; }`,
          '  workgroupBarrier();',
          `  let first = thread / ${team}u * ${groups}u;`,
          `  all = ${name}Parts[first];`,
          `  for (var i = 1u; i < ${groups}u; i++) { all = ${combine('all', `${name}Parts[first + i]`)}; }`,
        ]
  return [
    ...(groups === 1 ? [] : [`var<workgroup> ${name}Parts: array<${type}, ${threads / together}>;`]),
    `fn ${name}(value: ${type}, thread: u32) -> ${type} {`,
    '  var all = value;',
    ...steps,
    ...joined,
    '  return all;',
    '}',
  ].join('\n')
}
