// The cold start of the bundled models: a mixture of behaviours, right and plausibly wrong, each shown often enough to
// be mastered. Reinforcement then finds the one that pays; of what a policy never does, it would learn nothing.

import { z } from 'zod'
import type { Demonstration, Demonstrations, Loader } from '../loader.ts'
import { RandomStream } from '../random.ts'
import { inOrder, outOfOrder, promptOf, reversed, systemPrompt, taskKnobs, textOf, wrapped } from './task.ts'

const share = (initial: number, title: string, description: string) =>
  z.number().min(0).default(initial).meta({ title, description, unit: 'relative weight' })

const weights = z.strictObject({
  right: share(0.15, 'Right', 'Reverses the text, in tags.'),
  careless: share(0.15, 'Careless', 'Reverses the text, in tags, with dropped and wrong letters.'),
  copy: share(0.3, 'Copies', 'Puts the text into the tags as it is.'),
  word_order: share(0.25, 'Word order', 'Reverses the order of the words only, in tags.'),
  untagged: share(0.15, 'Untagged', 'Reverses the text, and forgets the tags.'),
})

export type Habit = keyof z.output<typeof weights>

const habitKnobs = taskKnobs
  .extend({
    min_length: taskKnobs.shape.min_length.unwrap().default(2).meta({
      title: 'Shortest text',
      description: 'Shorter than those of the environment, so that the skill is learned from its beginnings.',
      unit: 'characters',
    }),
    weights: weights.prefault({}).meta({ title: 'Mixture', description: 'How often each behaviour is shown.' }),
    drop: z.number().min(0).max(1).default(0.1).meta({
      title: 'Dropped letters',
      description: 'Of the careless behaviour: the share of letters left out.',
    }),
    wrong: z.number().min(0).max(1).default(0.1).meta({
      title: 'Wrong letters',
      description: 'Of the careless behaviour: the share of the remaining letters that are replaced by any of a to z.',
    }),
  })
  .refine(inOrder, outOfOrder)

export type HabitArgs = z.output<typeof habitKnobs>

/** Texts come from a stream of their own and never from those held out for evaluation. */
function createHabits(args: HabitArgs): Demonstrations {
  const system = systemPrompt(args)
  const total = Object.values(args.weights).reduce((sum, weight) => sum + weight, 0)
  if (total === 0) throw new Error('reverse-text: at least one of the habit weights must be above 0, all are 0.')
  return {
    draw(seed, position): Demonstration {
      const random = new RandomStream('reverse-text', 'demonstrations', seed, position)
      const text = textOf('train', random, args.min_length, args.max_length)
      const habit = drawHabit(args.weights, random.next() * total)
      const content = behave(habit, text, args, random)
      return { prompt: promptOf(text, system), completion: [{ role: 'assistant', content }], habit }
    },
  }
}

function drawHabit(weights: HabitArgs['weights'], at: number): Habit {
  const habits = (Object.entries(weights) as [Habit, number][]).filter(([, weight]) => weight > 0)
  for (const [habit, weight] of habits) {
    if (at < weight) return habit
    at -= weight
  }
  return habits.at(-1)![0]
}

function behave(habit: Habit, text: string, args: HabitArgs, random: RandomStream): string {
  switch (habit) {
    case 'right':
      return wrapped(reversed(text), args.tag)
    case 'careless':
      return wrapped(careless(reversed(text), args, random), args.tag)
    case 'copy':
      return wrapped(text, args.tag)
    case 'word_order':
      return wrapped(text.split(' ').reverse().join(' '), args.tag)
    case 'untagged':
      return reversed(text)
  }
}

function careless(text: string, { drop, wrong }: HabitArgs, random: RandomStream): string {
  return Array.from(text)
    .map((letter) => {
      if (random.next() < drop) return ''
      return random.next() < wrong ? random.choice('abcdefghijklmnopqrstuvwxyz') : letter
    })
    .join('')
}

export const habits: Loader<typeof habitKnobs, Demonstrations> = { knobs: habitKnobs, load: createHabits }
