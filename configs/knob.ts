// What a knob is besides its type: label, help, unit, group and where it is used. Written once, on the schema, and read
// back from its JSON Schema by the form, the editor, the docs and the checks. Knows no knob by name.

import { z } from 'zod'

export const GROUPS = [
  'Policy',
  'Rollouts',
  'Learning',
  'Filtering',
  'Evaluation',
  'Saving',
  'This device',
  'Remote',
] as const

export type Group = (typeof GROUPS)[number]

/** `browser`: a tab and Node obey it. `remote`: only full-size runs do. `not yet`: kept and checked, obeyed nowhere here. */
export type Used = 'browser' | 'remote' | 'not yet'

export interface About {
  label: string
  /** One or two plain sentences: what it does, and what the field advises. */
  help: string
  group: Group
  unit?: string
  /** `browser` unless told. */
  used?: Used
  /** Of a knob that is not used yet: what a run here does all the same. */
  instead?: string
  /** Choices of a knob that is obeyed otherwise, which are not obeyed here yet. */
  notYet?: string[]
}

/** The schema with what is said about it; must be the outermost call, because zod forgets it under later wrappers. */
export function knob<S extends z.ZodType>(schema: S, about: About): S {
  const { label, help, used = 'browser', ...rest } = about
  return schema.meta({ title: label, description: help, used, ...rest }) as S
}

export type KnobType = 'boolean' | 'integer' | 'number' | 'string' | 'choice' | 'list' | 'table'

export interface Knob {
  /** Dotted; a list of tables shows as `env[].id`. */
  path: string
  label: string
  help: string
  unit: string | null
  group: Group
  type: KnobType
  /** undefined where the knob is simply absent until given. */
  default: unknown
  nullable: boolean
  required: boolean
  minimum: number | null
  maximum: number | null
  /** The minimum itself is not allowed. */
  exclusiveMinimum: boolean
  /** The maximum itself is not allowed. */
  exclusiveMaximum: boolean
  choices: string[] | null
  used: Used
  instead: string | null
  notYet: string[]
}

export interface JsonSchema {
  type?: string | string[]
  title?: string
  description?: string
  default?: unknown
  enum?: string[]
  const?: string
  minimum?: number
  maximum?: number
  exclusiveMinimum?: number
  exclusiveMaximum?: number
  properties?: Record<string, JsonSchema>
  required?: string[]
  items?: JsonSchema
  anyOf?: JsonSchema[]
  additionalProperties?: unknown
  group?: Group
  unit?: string
  used?: Used
  instead?: string
  notYet?: string[]
}

/** JSON Schema of what a file may say: defaults need not be written. For editors and other programs. */
export function jsonSchema(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, { io: 'input' }) as JsonSchema
}

/** Every knob of a schema, tables opened, in the order in which they are written. */
export function knobsOf(schema: z.ZodType): Knob[] {
  const found: Knob[] = []
  collect(jsonSchema(schema), '', found)
  return found
}

function collect(table: JsonSchema, prefix: string, found: Knob[]): void {
  for (const [key, property] of Object.entries(table.properties ?? {})) {
    const path = prefix + key
    const { inner, nullable } = withoutNull(property)
    if (property.title ?? inner.title) {
      found.push(toKnob(path, { ...inner, ...property }, inner, nullable, table.required?.includes(key) ?? false))
    }
    if (inner.type === 'object' && inner.properties) collect(inner, `${path}.`, found)
    if (inner.type === 'array' && inner.items?.properties) collect(inner.items, `${path}[].`, found)
  }
}

// A nullable knob is written as `type: [T, null]` or as `anyOf: [T, null]`, depending on its checks.
function withoutNull(schema: JsonSchema): { inner: JsonSchema; nullable: boolean } {
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type) => type !== 'null')
    return { inner: { ...schema, type: types[0] }, nullable: types.length < schema.type.length }
  }
  const variants = schema.anyOf
  if (!variants) return { inner: schema, nullable: false }
  const rest = variants.filter((variant) => variant.type !== 'null')
  return { inner: rest.length === 1 ? rest[0] : { ...rest[0], type: 'table' }, nullable: rest.length < variants.length }
}

function toKnob(path: string, about: JsonSchema, inner: JsonSchema, nullable: boolean, required: boolean): Knob {
  const bound = (value: number | undefined) =>
    value === undefined || Math.abs(value) === Number.MAX_SAFE_INTEGER ? null : value
  return {
    path,
    label: about.title ?? path,
    help: about.description ?? '',
    unit: about.unit ?? null,
    group: about.group ?? 'Remote',
    type: knobType(inner),
    default: about.default,
    nullable,
    required,
    minimum: bound(inner.exclusiveMinimum ?? inner.minimum),
    maximum: bound(inner.exclusiveMaximum ?? inner.maximum),
    exclusiveMinimum: inner.exclusiveMinimum !== undefined,
    exclusiveMaximum: inner.exclusiveMaximum !== undefined,
    choices: inner.enum ?? (inner.const === undefined ? null : [inner.const]),
    used: about.used ?? 'browser',
    instead: about.instead ?? null,
    notYet: about.notYet ?? [],
  }
}

function knobType(schema: JsonSchema): KnobType {
  if (schema.enum || schema.const !== undefined) return 'choice'
  switch (schema.type) {
    case 'boolean':
    case 'integer':
    case 'number':
    case 'string':
      return schema.type
    case 'array':
      return 'list'
    default:
      return 'table'
  }
}
