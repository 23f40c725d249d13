// The script of every job: the same bytes always. What differs between jobs comes by the environment and by
// files, as data; nothing of it is ever read as shell.

export const SCRIPT = `#!/bin/bash
# rollout-lab: the same bytes for every job.
export HOME="\${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"
cd -- "$ROLLOUT_LAB_PROJECT" || exit 78
if [ "$ROLLOUT_LAB_STEP" = render ]; then
  exec "$ROLLOUT_LAB_COMMAND" @ "$ROLLOUT_LAB_CONFIG" --dry-run
fi
date +%s > "$ROLLOUT_LAB_FOLDER/started"
if [ -n "$ROLLOUT_LAB_SECRETS" ]; then
  for _ in {1..120}; do
    [ -f "$ROLLOUT_LAB_SECRETS" ] && break
    sleep 1
  done
  if [ ! -f "$ROLLOUT_LAB_SECRETS" ]; then
    echo "rollout-lab: the secrets of this run did not come within two minutes; is the server away?"
    exit 78
  fi
  while IFS= read -r -d '' pair; do
    export "\${pair?}"
  done < "$ROLLOUT_LAB_SECRETS"
  rm -f -- "$ROLLOUT_LAB_SECRETS"
fi
if [ "$ROLLOUT_LAB_STEP" = rendered ]; then
  exec bash -- "$ROLLOUT_LAB_OUTPUT/rl.sbatch"
fi
set -- "$ROLLOUT_LAB_COMMAND" @ "$ROLLOUT_LAB_CONFIG"
if [ "\${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
  if compgen -G "$ROLLOUT_LAB_OUTPUT/checkpoints/step_*/trainer" > /dev/null; then
    set -- "$@" --resume
  else
    set -- "$@" --clean
  fi
fi
exec "$@"
`

export interface ScriptData {
  /** The checkout of prime-rl. */
  project: string
  /** Of the run. */
  folder: string
  /** In it, prime-rl's own run directory. */
  output: string
  config: string
  /** '' for none. */
  secrets: string
  /** The program that trains. */
  command: string
  /** `train` on one node; over several, `render` has prime-rl write its own script, which `rendered` runs. */
  step: 'train' | 'render' | 'rendered'
}

/** What the script reads. */
export function scriptEnvironment(data: ScriptData): Record<string, string> {
  return {
    ROLLOUT_LAB_PROJECT: data.project,
    ROLLOUT_LAB_FOLDER: data.folder,
    ROLLOUT_LAB_OUTPUT: data.output,
    ROLLOUT_LAB_CONFIG: data.config,
    ROLLOUT_LAB_SECRETS: data.secrets,
    ROLLOUT_LAB_COMMAND: data.command,
    ROLLOUT_LAB_STEP: data.step,
  }
}

/** The file of secrets: NAME=value, each ended by a zero byte, so that a value may hold anything else. */
export function secretsFile(secrets: Record<string, string>): Buffer {
  return Buffer.from(
    Object.entries(secrets)
      .map(([name, value]) => `${name}=${value.replaceAll('\0', '')}\0`)
      .join(''),
  )
}
