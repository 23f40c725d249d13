// Dotted paths into a config: `env[0].args.max_turns`, with quotes around keys that need them. Knows no key by name.

export type Part = string | number
export type Path = readonly Part[]

const BARE = /^[A-Za-z0-9_-]+$/

/** `['env', 0, 'a.b']` → `env[0]."a.b"`. */
export function formatPath(path: Path): string {
  let text = ''
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`
    else text += (text ? '.' : '') + (BARE.test(part) ? part : JSON.stringify(part))
  }
  return text
}

/** No list of a config is longer; a link that says otherwise would make one of billions of holes. */
const LARGEST_INDEX = 999

/** The inverse of formatPath; null where the text is no path. */
export function parsePath(text: string): Part[] | null {
  const parts: Part[] = []
  const token = /\.?(?:([A-Za-z0-9_-]+)|("(?:[^"\\]|\\.)*"))|\[(\d+)\]/y
  while (token.lastIndex < text.length) {
    const start = token.lastIndex
    const match = token.exec(text)
    if (!match) return null
    const dotted = text[start] === '.'
    if (match[3] === undefined && dotted === (start === 0)) return null
    if (Number(match[3] ?? 0) > LARGEST_INDEX) return null
    if (match[3] !== undefined) parts.push(Number(match[3]))
    else if (match[1] !== undefined) parts.push(match[1])
    else {
      try {
        parts.push(JSON.parse(match[2]) as string)
      } catch {
        return null
      }
    }
  }
  return parts.length > 0 ? parts : null
}

export type Table = Record<string, unknown>

/** True of tables, false of lists, dates and scalars. */
export function isTable(value: unknown): value is Table {
  if (typeof value !== 'object' || value === null) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

export function getAt(value: unknown, path: Path): unknown {
  for (const part of path) {
    if (typeof part === 'number') value = Array.isArray(value) ? value[part] : undefined
    else value = isTable(value) && Object.hasOwn(value, part) ? value[part] : undefined
  }
  return value
}

/** Sets in place, making tables and lists on the way. The path has at least one part. */
export function setAt(root: Table, path: Path, value: unknown): void {
  let at: unknown = root
  for (let i = 0; i < path.length - 1; i++) {
    const next = getAt(at, [path[i]])
    if (isTable(next) || Array.isArray(next)) at = next
    else {
      const made = typeof path[i + 1] === 'number' ? [] : {}
      put(at, path[i], made)
      at = made
    }
  }
  put(at, path[path.length - 1], value)
}

export function deleteAt(root: Table, path: Path): void {
  const parent = getAt(root, path.slice(0, -1))
  const last = path[path.length - 1]
  if (Array.isArray(parent) && typeof last === 'number') parent.splice(last, 1)
  else if (isTable(parent)) delete parent[last]
}

// Own properties only: a key named __proto__ is a key like any other.
function put(at: unknown, part: Part, value: unknown): void {
  Object.defineProperty(at, part, { value, writable: true, enumerable: true, configurable: true })
}
