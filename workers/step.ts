// ONE STEP of GRPO: ask P questions, answer each G times, and make the answers that did better than their siblings a
// little more likely. There is no critic: the group is the baseline.
//
// Every verb is a function of its own in step/; a number that is not finite is thrown out of here, and trainer.ts then
// skips the update. The page shows these lines and lights the one whose verb is running.
//
// P prompts · G answers per prompt · N = P·G rollouts

import type { Group, Verbs } from './step/verbs.ts'

export async function step(verbs: Verbs): Promise<void> {
  // With asynchronous steps these answers are there already, and the next questions are answered while they teach.
  const groups = verbs.answered ?? (await rollOut(verbs))
  await verbs.meanwhile?.()
  await learn(verbs, groups)
}

export async function rollOut({ P, ask, answer, judge, compare, admit }: Verbs): Promise<Group[]> {
  const groups: Group[] = []
  while (groups.length < P) {
    // Ask. New questions take the place of groups that were turned away, as far as oversampling allows.
    const questions = await ask(P - groups.length) // Question[≤ P]
    if (questions.length === 0) break

    // Answer and judge. The policy that answers is the policy about to be improved.
    const answers = await answer(questions) // [P][G]
    const rewards = await judge(answers) // [P][G], null for an answer whose environment failed

    // Compare. An answer is good only relative to the others given to the same question.
    const advantages = await compare(rewards) // [P][G] reward − mean of its group
    groups.push(...(await admit(advantages)))
  }
  return groups
}

export async function learn(
  { rounds, leaveOut, logprobs, slopes, backward, update }: Verbs,
  groups: Group[],
): Promise<void> {
  // Leave out what has nothing to teach: a group whose answers all scored alike.
  const batch = await leaveOut(groups) // rows ≤ N
  if (batch.length === 0) return

  // Learn. One round stays on policy; in later ones the ratio π/μ and its mask keep the update honest.
  for (let round = 0; round < rounds; round++) {
    for (const rows of batch) {
      const now = await logprobs(rows) // log π per sampled token
      const push = await slopes(rows, now) // ∂loss/∂log π, divided by the tokens of the whole batch, not of the pass
      await backward(now, push) // gradient += Σ slope · ∇log π
    }
    await update()
  }
}
