// Variables for a process that is not ours to steer: what a name may look like, and which names change what runs.

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/

const LOADERS =
  /^((LD|DYLD)_.*|PYTHON.*|PERL5?(LIB|OPT)|RUBY(LIB|OPT)|NODE_(OPTIONS|PATH)|GIT_.*|BASH_.*|ENV|PATH|IFS|PS4|SHELLOPTS|PROMPT_COMMAND)$/

export function isVariable(name: string): boolean {
  return NAME.test(name)
}

/** Shells, linkers and interpreters read these before they do anything, and run or load what they name. */
export function loadsPrograms(name: string): boolean {
  return LOADERS.test(name)
}
