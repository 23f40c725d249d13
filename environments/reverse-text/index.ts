// Reverse a text, character by character; judged by how much of it stands right. The smallest task that a language
// model must learn to do letter by letter, and the first that verifiers and prime-rl show.

import { z } from 'zod'
import { generated, generatedRows, type Row } from '../datasets.ts'
import { SingleTurnEnvironment } from '../environment.ts'
import type { EnvironmentLoader } from '../loader.ts'
import { XMLParser } from '../parsers.ts'
import type { RandomStream } from '../random.ts'
import { Rubric } from '../rubric.ts'
import { ratio } from '../similarity.ts'
import { habits } from './habits.ts'
import { inOrder, outOfOrder, reversed, systemPrompt, taskKnobs, textOf, wrapped } from './task.ts'

export const knobs = taskKnobs
  .extend({
    train_size: z.int().min(1).nullable().default(null).meta({
      title: 'Training texts',
      description:
        'How many different texts there are to train on, in a new order each epoch. null: never the same twice.',
    }),
    eval_size: z.int().min(1).max(100_000).default(256).meta({
      title: 'Held-out texts',
      description: 'How many texts are kept for evaluation; they never occur in training.',
    }),
    eval_seed: z.int().min(0).default(0).meta({
      title: 'Held-out seed',
      description: "Which texts those are. It is not the run's seed, so that runs compare on the same texts.",
    }),
  })
  .refine(inOrder, outOfOrder)

export type ReverseTextArgs = z.output<typeof knobs>

function createReverseText(args: ReverseTextArgs): SingleTurnEnvironment {
  const rowOf = (text: string): Row => ({ question: text, answer: reversed(text) })
  const trainRow = (random: RandomStream) => rowOf(textOf('train', random, args.min_length, args.max_length))
  const evalRow = (random: RandomStream) => rowOf(textOf('eval', random, args.min_length, args.max_length))
  const parser = new XMLParser([args.tag], { answerField: args.tag })
  return new SingleTurnEnvironment({
    id: loader.id,
    title: loader.title,
    summary: loader.summary,
    train:
      args.train_size === null
        ? generated('reverse-text', trainRow)
        : generatedRows('reverse-text training', { size: args.train_size, seed: 0 }, trainRow),
    evaluation: generatedRows('reverse-text evaluation', { size: args.eval_size, seed: args.eval_seed }, evalRow),
    systemPrompt: systemPrompt(args),
    // Named as in verifiers, although the ratio is not that of a longest common subsequence.
    rubric: new Rubric({ parser }).addReward('lcs_reward_func', ['completion', 'answer'], ({ completion, answer }) =>
      ratio(parser.parseAnswer(completion) ?? '', answer),
    ),
    gold: (state) => wrapped(state.answer, args.tag),
    rewardRange: { minimum: 0, maximum: 1 },
  })
}

export const loader: EnvironmentLoader<typeof knobs> = {
  id: 'reverse-text',
  title: 'Reverse text',
  summary: 'Write a text backwards, character by character; the reward is the similarity to the right answer.',
  data: 'Generated: pseudo-words out of syllables, Apache-2.0 like the code.',
  python: {
    id: 'primeintellect/reverse-text',
    version: '0.1.0',
    differences: [
      'min_length, max_length, train_size, eval_size and eval_seed exist only here: there the texts are the sentences of the data set PrimeIntellect/Reverse-Text-RL.',
      'tag exists only here: there it is reversed_text.',
      'dataset_name and dataset_split exist only there.',
      'There evaluation falls back to the training texts; here it never meets them.',
    ],
  },
  knobs,
  load: createReverseText,
  demonstrations: habits,
}
