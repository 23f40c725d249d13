// Pseudo-words out of syllables: texts without a meaning that a small policy could lean on. Letters and single spaces.

import type { RandomStream } from '../random.ts'

const ONSETS = 'b c d f g h k l m n p r s t v w z br st tr ch sh'.split(' ')
const RIMES = 'a e i o u an er in ol us'.split(' ')
const SYLLABLES = ONSETS.flatMap((onset) => RIMES.map((rime) => onset + rime))

/** A text of `low` to `high` characters, 2 ≤ low ≤ high: words of one to three syllables. */
export function pseudoText(random: RandomStream, low: number, high: number): string {
  const mostWords = Math.max(4, Math.ceil(high / 5))
  for (let attempt = 0; attempt < 200; attempt++) {
    const text = words(random, random.between(1, mostWords))
    if (text.length >= low && text.length <= high) return text
  }
  // A window too narrow to be hit by whole words: cut a longer text, and let no space stand at the cut.
  const length = random.between(low, high)
  const cut = words(random, Math.ceil(length / 2) + 1).slice(0, length)
  return cut.endsWith(' ') ? `${cut.slice(0, -1)}${random.choice('aeiou')}` : cut
}

function words(random: RandomStream, count: number): string {
  return Array.from({ length: count }, () => word(random)).join(' ')
}

function word(random: RandomStream): string {
  return Array.from({ length: random.between(1, 3) }, () => random.choice(SYLLABLES)).join('')
}
