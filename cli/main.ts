// The command line. Each verb is a file of its own, loaded only when it is asked for (see verb.ts); adding one is a file
// and a line here. Knows nothing of what a verb does.

import { Command, CommanderError } from 'commander'
import { type Context, Refusal, type Verb } from './verb.ts'

const VERBS: Record<string, { summary: string; load: () => Promise<Verb> }> = {
  backup: { summary: 'copy what a server keeps into a folder', load: () => import('./backup.ts') },
  compile: { summary: 'write a config for prime-rl or Hosted Training', load: () => import('./compile.ts') },
  keys: { summary: 'make, list and revoke keys of a server', load: () => import('./keys.ts') },
  pretrain: { summary: 'train a bundled checkpoint from nothing', load: () => import('./pretrain.ts') },
  secrets: { summary: 'upload, list and rotate the secret sets of a server', load: () => import('./secrets.ts') },
  restore: { summary: 'make a data folder from a backup', load: () => import('./restore.ts') },
  runs: { summary: 'list, follow, cancel, resume and fetch runs of a server', load: () => import('./runs.ts') },
  serve: { summary: 'serve the page and the server on one port', load: () => import('./serve.ts') },
  submit: { summary: 'hand a run to a server', load: () => import('./submit.ts') },
  train: { summary: 'train a policy here, into a run folder', load: () => import('./train.ts') },
  validate: { summary: 'say what is wrong with a config, or what it resolves to', load: () => import('./validate.ts') },
}

/** Runs one command line and resolves to its exit code. */
export async function main(args: string[], door: Pick<Context, 'root' | 'buildPage'>): Promise<number> {
  const context: Context = { ...door, exitCode: 0 }
  const program = new Command('rollout-lab')
    .description('Train language-model policies with reinforcement learning, here or at full size.')
    .helpCommand(false)
    .showHelpAfterError('(rollout-lab --help lists the verbs, rollout-lab VERB --help the options of one)')
    .exitOverride()
  for (const [name, { summary, load }] of Object.entries(VERBS)) {
    if (args[0] === name) {
      const verb = (await load()).command(context).name(name).description(summary)
      program.addCommand(verb.copyInheritedSettings(program))
    } else program.command(name).description(summary)
  }
  try {
    await program.parseAsync(args, { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode
    if (!(error instanceof Refusal)) throw error
    process.stderr.write(`${error.message}\n`)
    return 1
  }
  return context.exitCode
}
