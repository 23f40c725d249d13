import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

const css = readFileSync(new URL('../../web/styles/palette.css', import.meta.url), 'utf8')
const colours = new Map(
  [...css.matchAll(/--(\w+): light-dark\((#\w+), (#\w+)\)/g)].map(([, name, light, dark]) => [name, [light, dark]]),
)

/** WCAG 2: L = 0.2126 R + 0.7152 G + 0.0722 B over linear channels. */
function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const channel = Number.parseInt(hex.slice(at, at + 2), 16) / 255
    return channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y)
  return (high + 0.05) / (low + 0.05)
}

describe('the palette', () => {
  const THEMES = ['light', 'dark'] as const
  const texts = ['ink', 'soft', 'up', 'down', 'accent', 'ok', 'bad']
  const grounds = ['paper', 'panel', 'sunk']
  const pairs = THEMES.flatMap((theme) =>
    texts.flatMap((text) => grounds.map((ground) => [theme, text, ground] as const)),
  )

  it.each(pairs)('in the %s theme, %s can be read on %s', (theme, text, ground) => {
    const which = THEMES.indexOf(theme)
    expect(contrast(colours.get(text)![which], colours.get(ground)![which])).toBeGreaterThanOrEqual(4.5)
  })

  it.each(THEMES)('in the %s theme, the chosen tab and the main button can be read', (theme) => {
    const which = THEMES.indexOf(theme)
    const colour = (name: string) => colours.get(name)![which]
    expect(contrast(colour('ink'), colour('raised'))).toBeGreaterThanOrEqual(4.5)
    expect(contrast(colour('onInk'), colour('ink'))).toBeGreaterThanOrEqual(4.5)
  })

  it('keeps encouraged and discouraged apart for every common colour blindness', () => {
    // Viénot, Brettel and Mollon 1999: what a protanope and a deuteranope see, in linear RGB; both keep blue from orange.
    for (const which of [0, 1]) {
      for (const [red, green] of [
        [0.11238, 0.88762],
        [0.29275, 0.70725],
      ]) {
        const seen = ['up', 'down'].map((name) => {
          const hex = colours.get(name)![which]
          const [r, g, b] = [1, 3, 5].map((at) => (Number.parseInt(hex.slice(at, at + 2), 16) / 255) ** 2.2)
          return { yellow: red * r + green * g, blue: b }
        })
        expect(Math.sign(seen[0].blue - seen[0].yellow)).not.toBe(Math.sign(seen[1].blue - seen[1].yellow))
      }
    }
  })
})
