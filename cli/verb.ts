// What a verb of the command line is: a file that exports `command`, loaded only when it is asked for.

import type { Command } from 'commander'

export interface Context {
  /** The folder of package.json: bundled models, recipes and the built page lie below it. */
  root: string
  /** Makes dist/web as fresh as its sources. */
  buildPage(): Promise<void>
  /** What the command line ends with; a verb sets it to 1 after it has said what went wrong. */
  exitCode: number
}

/** A verb's options and action. A thrown `Refusal` is shown as its sentence alone. */
export interface Verb {
  command(context: Context): Command
}

/** A problem that is the user's to solve: a sentence that says what was done, what came, and what to do. */
export class Refusal extends Error {}
