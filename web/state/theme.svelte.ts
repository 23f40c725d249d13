// Light, dark, or whatever the system says. Remembered in this browser only.

const KEY = 'rollout-lab/theme'

export type ThemeChoice = 'system' | 'light' | 'dark'

export class Theme {
  #choice = $state<ThemeChoice>(remembered())
  #systemDark = $state(matchMedia('(prefers-color-scheme: dark)').matches)

  constructor() {
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', (event) => {
      this.#systemDark = event.matches
    })
  }

  readonly dark = $derived(this.#choice === 'system' ? this.#systemDark : this.#choice === 'dark')

  /** Turns to the other one; choosing what the system has anyway goes back to following it. */
  toggle(): void {
    const wanted = this.dark ? 'light' : 'dark'
    this.#choice = (wanted === 'dark') === this.#systemDark ? 'system' : wanted
    if (this.#choice === 'system') delete document.documentElement.dataset.theme
    else document.documentElement.dataset.theme = this.#choice
    try {
      if (this.#choice === 'system') localStorage.removeItem(KEY)
      else localStorage.setItem(KEY, this.#choice)
    } catch {
      // A browser that keeps nothing still gets the theme for this visit.
    }
  }
}

function remembered(): ThemeChoice {
  const value = document.documentElement.dataset.theme
  return value === 'light' || value === 'dark' ? value : 'system'
}
