// The recipes: id -> text. An id is the file's path without its ending, `rl/reverse-text`. Built in by Vite, so a page
// without a server has them too.

export type Job = 'rl' | 'sft' | 'eval' | 'gepa'

export interface Recipe {
  /** `rl/reverse-text`. */
  id: string
  job: Job
  /** The first line of the file's comment. */
  title: string
  /** The rest of it, a paragraph each: what one should see, how soon, and why the values are as they are. */
  about: string[]
  /** The whole file. */
  text: string
}

const files = import.meta.glob<string>('./{rl,sft,eval,gepa}/*.toml', { query: '?raw', import: 'default', eager: true })

/** The one that the page shows first. */
export const FIRST_RECIPE = 'rl/reverse-text'

/** RL first, the first recipe first of all. */
export const recipes: readonly Recipe[] = Object.entries(files)
  .map(([path, text]) => toRecipe(path.slice('./'.length, -'.toml'.length), text))
  .sort((a, b) => rank(a) - rank(b) || a.id.localeCompare(b.id))

/** `rl/reverse-text`, or `reverse-text` for short where it is an RL recipe. */
export function findRecipe(id: string): Recipe | null {
  return recipes.find((recipe) => recipe.id === id) ?? recipes.find((recipe) => recipe.id === `rl/${id}`) ?? null
}

function rank({ id, job }: Recipe): number {
  return id === FIRST_RECIPE ? -1 : ['rl', 'sft', 'eval', 'gepa'].indexOf(job)
}

function toRecipe(id: string, text: string): Recipe {
  const comment: string[] = []
  for (const line of text.split('\n')) {
    if (!line.startsWith('#')) break
    comment.push(line.replace(/^# ?/, ''))
  }
  const [title, ...paragraphs] = comment.join('\n').split('\n\n')
  return { id, job: id.split('/')[0] as Job, title, about: paragraphs.map((each) => each.replaceAll('\n', ' ')), text }
}
