// What a config's `model` names: a bundled checkpoint, a repository of a hub, or a folder.

export type ModelName =
  | { kind: 'bundled'; name: string }
  /** `owner/name` of a hub. */
  | { kind: 'hub'; name: string }
  /** A folder that was dropped on the page; it lies in the browser's storage under this name. */
  | { kind: 'dropped'; name: string }
  /** A folder of this machine; Node alone can read it. */
  | { kind: 'folder'; path: string }

const DROPPED = 'dropped:'

/** @throws a sentence when the name is none of these */
export function readModelName(model: string): ModelName {
  if (model.startsWith(DROPPED)) return { kind: 'dropped', name: model.slice(DROPPED.length) }
  if (model.startsWith('file:')) return { kind: 'folder', path: pathOf(model) }
  if (/^[\w.-]+$/.test(model)) return { kind: 'bundled', name: model }
  if (/^[\w-][\w.-]*\/[\w-][\w.-]*$/.test(model)) return { kind: 'hub', name: model }
  if (/[\\/]/.test(model) && !/^\w+:\/\//.test(model)) return { kind: 'folder', path: model }
  throw new Error(
    `There is no model ${JSON.stringify(model)}: expected a bundled model (lab-tiny), a Hugging Face id (Qwen/Qwen3-0.6B) or a folder (file:/home/me/model).`,
  )
}

export function droppedName(name: string): string {
  return DROPPED + name
}

/** `file:///a/b`, `file:/a/b` and `file:b`: the last one is relative. */
function pathOf(address: string): string {
  const path = address.slice('file:'.length)
  return decodeURIComponent(path.startsWith('//') ? new URL(address).pathname : path)
}
