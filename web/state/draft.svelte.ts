// The config being written: one TOML text, seen as text, as form and as link. The text is the truth; the form edits it
// in place, so that comments survive. Starts nothing.

import { difference } from '../../configs/difference.ts'
import { withoutKey, withValue } from '../../configs/edit.ts'
import { FIRST_RECIPE, findRecipe, type Recipe, recipes } from '../../configs/index.ts'
import { GROUPS, type Group, type Knob } from '../../configs/knob.ts'
import { readLink, toLink } from '../../configs/link.ts'
import { load, type Note, type Problem } from '../../configs/load.ts'
import { formatPath, getAt, isTable, type Part, parsePath, type Table } from '../../configs/path.ts'
import { knobs, type RunConfig } from '../../configs/schema.ts'
import { readSource } from '../../configs/source.ts'
import { toToml } from '../../configs/write.ts'

/** One line of the form: a knob at its place in this config. */
export interface FormField {
  knob: Knob
  path: Part[]
  /** Dotted, as a reader writes it. */
  name: string
  value: unknown
  /** Differs from the recipe, or from the default where there is no recipe. */
  changed: boolean
  base: unknown
}

export class Draft {
  /** Jobs that a tab can do. */
  readonly recipes: readonly Recipe[] = recipes.filter(({ job }) => job === 'rl')
  #recipe = $state.raw<Recipe | null>(null)
  #text = $state('')
  /** The newest config that was whole: what the form shows while the text is broken. */
  #whole = $state.raw<RunConfig | null>(null)
  #linkProblem = $state<string | null>(null)
  #fromLink = $state(false)

  /** The recipe of the smallest bundled policy. */
  readonly smallestRecipe = this.recipes.find(({ text }) => text.includes('model = "lab-nano"')) ?? null

  constructor() {
    this.chooseRecipe(FIRST_RECIPE)
  }

  get recipe() {
    return this.#recipe
  }
  get text() {
    return this.#text
  }
  /** Why the link in the address bar could not be read. */
  get linkProblem() {
    return this.#linkProblem
  }
  /** The form was filled by a link, and nobody has started it yet. */
  get fromLink() {
    return this.#fromLink
  }

  readonly #loaded = $derived.by(() => load(this.#text, { format: 'toml' }))
  /** null while the text has problems. */
  readonly config: RunConfig | null = $derived(this.#loaded.config ?? null)
  readonly problems: Problem[] = $derived(this.#loaded.problems ?? [])
  readonly notes: Note[] = $derived(this.#loaded.notes ?? [])

  readonly #base: RunConfig | null = $derived(load(this.#recipe?.text ?? '', { format: 'toml' }).config ?? null)
  readonly shown: RunConfig | null = $derived(this.config ?? this.#whole)
  /** While the text has problems, a field shows what it says there, right or wrong. */
  readonly #written: Table = $derived(this.config ? {} : (parsed(this.#text) ?? {}))
  readonly fields: FormField[] = $derived(this.shown ? fieldsOf(this.shown, this.#base, this.#written) : [])
  readonly changed: FormField[] = $derived(this.fields.filter((field) => field.changed))

  fieldsIn(group: Group): FormField[] {
    return this.fields.filter(({ knob }) => knob.group === group)
  }

  readonly groups = GROUPS

  chooseRecipe(id: string): void {
    const recipe = this.recipes.find((one) => one.id === id)
    if (!recipe) return
    this.#recipe = recipe
    this.#fromLink = false
    this.setText(recipe.text)
  }

  setText(text: string): void {
    this.#text = text
    const loaded = load(text, { format: 'toml' })
    if (loaded.config) this.#whole = loaded.config
  }

  /** Sets one knob in the text. What the form cannot say in place is said anew, as a whole. */
  set(path: Part[], value: unknown): void {
    this.#edit(path, value, () => withValue(this.#text, path, value))
  }

  /** Gives a knob the recipe's value again. */
  reset({ path, base }: FormField): void {
    const inRecipe = this.#recipe ? getAt(readSource(this.#recipe.text, 'toml').value, path) !== undefined : false
    this.#edit(path, base, () => (inRecipe ? withValue(this.#text, path, base) : withoutKey(this.#text, path)))
  }

  resetAll(): void {
    if (this.#recipe) this.setText(this.#recipe.text)
  }

  /** Several knobs by dotted name: what advice asks for. */
  change(delta: Record<string, unknown>): void {
    for (const [name, value] of Object.entries(delta)) {
      const path = parsePath(name)
      if (path) this.set(path, value)
    }
  }

  /** Fills the form with a config that was never text: a stored run's, or a link's. */
  showConfig(config: RunConfig, recipe: Recipe | null = this.#nearestRecipe(config)): void {
    this.#recipe = recipe
    this.#fromLink = false
    const base = recipe ? load(recipe.text, { format: 'toml' }).config : undefined
    // The recipe's own text, comments and all, with what differs set in it; where that does not lead there, plain TOML.
    let text = recipe?.text ?? ''
    for (const delta of base ? difference(base, config) : []) {
      text = 'gone' in delta ? withoutKey(text, delta.path) : withValue(text, delta.path, delta.value)
    }
    const reached = base ? load(text, { format: 'toml' }).config : undefined
    this.setText(reached && !difference(reached, config).length ? text : toToml(config))
  }

  /** Dotted names of the knobs in which the draft differs from a config; empty while the text has problems. */
  differencesFrom(config: RunConfig): string[] {
    return this.config ? difference(config, this.config).map(({ path }) => formatPath(path)) : []
  }

  /** Fills the form from a link. One that cannot be read leaves the form as it is and says why. */
  readLink(fragment: string): void {
    this.#linkProblem = null
    if (fragment.replace('#', '') === '') return
    const read = readLink(
      fragment,
      findRecipe,
      recipes.map(({ id }) => id),
    )
    if (read.problems) {
      this.#linkProblem = read.problems[0].sentence
      return
    }
    this.showConfig(read.config, read.recipe === null ? null : findRecipe(read.recipe))
    this.#fromLink = true
  }

  /** A link that carries this config and its seed, or why there is none. */
  link(href: string): { link: string } | { sentence: string } {
    if (!this.config) return { sentence: 'The config has a problem, so it cannot be shared yet.' }
    const made = toLink(this.config, this.#recipe)
    return 'link' in made ? { link: `${href.split('#')[0]}#${made.link}` } : made
  }

  #edit(path: Part[], value: unknown, edited: () => string): void {
    const shown = this.shown
    if (!shown) return
    const text = parsed(this.#text) ? edited() : null
    const got = text === null ? undefined : load(text, { format: 'toml' })
    // A key that stands in the text under another name wins over ours or contradicts it: then all is said anew.
    const took =
      got && (got.problems ? this.problems.length > 0 || refuses(got, path) : same(getAt(got.config, path), value))
    this.setText(text !== null && took ? text : withValue(toToml(shown), path, value))
  }

  #nearestRecipe(config: RunConfig): Recipe | null {
    const base = (recipe: Recipe) => load(recipe.text, { format: 'toml' }).config
    const alike = this.recipes.filter((recipe) => {
      const own = base(recipe)
      return own?.model === config.model && own?.env[0]?.id === config.env[0]?.id
    })
    return alike[0] ?? null
  }
}

/** Whether what is wrong is the value just given, which the reader must see at its field. */
function refuses({ problems }: { problems?: Problem[] }, path: Part[]): boolean {
  return (problems ?? []).some((problem) => problem.path === formatPath(path))
}

/** Every knob at its places in this config: `env[].id` once for each environment. */
function fieldsOf(config: RunConfig, base: RunConfig | null, written: Table): FormField[] {
  return knobs().flatMap((knob) =>
    placesOf(knob.path, config).map((path): FormField => {
      const value = getAt(written, path) ?? getAt(config, path)
      const baseValue = base ? getAt(base, path) : knob.default
      return { knob, path, name: formatPath(path), value, changed: !same(value, baseValue), base: baseValue }
    }),
  )
}

function parsed(text: string): Table | null {
  try {
    return readSource(text, 'toml').value
  } catch {
    return null
  }
}

function placesOf(knobPath: string, config: RunConfig): Part[][] {
  let paths: Part[][] = [[]]
  for (const piece of knobPath.split('.')) {
    const name = piece.replace('[]', '')
    paths = paths.flatMap((path) => {
      const here = [...path, name]
      if (!piece.endsWith('[]')) return [here]
      const list = getAt(config, here)
      return Array.isArray(list) ? list.map((_, i) => [...here, i]) : []
    })
  }
  // A table that is absent has no fields of its own; the field of the table itself stands for it.
  return paths.filter((path) => path.length === 1 || isTable(getAt(config, path.slice(0, -1))))
}

function same(a: unknown, b: unknown): boolean {
  return difference({ value: a ?? null }, { value: b ?? null }).length === 0
}
