// Every kind of problem: its sentence, its dotted path, its line and column.

import { describe, expect, test } from 'vitest'
import { load } from '../../configs/load.ts'
import { editDistance, nearest } from '../../configs/nearest.ts'
import { lineOf } from '../../configs/report.ts'

/** `line:column path — sentence` of each problem. */
function problemsOf(text: string | Record<string, unknown>, set?: string[]): string[] {
  const { problems = [] } = load(text, { set })
  return problems.map(({ line, column, path, sentence }) => `${line}:${column} ${path} — ${sentence}`)
}

const only = (text: string) => {
  const problems = problemsOf(text)
  expect(problems).toHaveLength(1)
  return problems[0]
}

describe('the text', () => {
  test('a broken TOML says where it breaks', () => {
    expect(only('model = "lab-tiny"\nbatch_size = = 8\n')).toMatch(/^2:14 {2}— This is not TOML: .+\.$/)
    expect(only('a = 1\na = 2')).toMatch(/^2:\d+ {2}— This is not TOML: .+\.$/)
  })

  test('so does a broken JSON', () => {
    expect(only('{\n  "batch_size": 8,\n}')).toBe('3:1  — This is not JSON: the last entry has no comma after it.')
  })

  test('another job is named', () => {
    expect(only('env_id = "a"\nreflection_model = "b"')).toContain(
      'describes a prompt optimisation (GEPA), not a training run',
    )
    expect(only('[[eval]]\nid = "a"')).toContain('describes an evaluation')
  })
})

describe('unknown keys', () => {
  test.each([
    ['learnin_rate = 1', '1:1 learnin_rate — Unknown key learnin_rate; did you mean learning_rate?'],
    [
      '\n[sampling]\n  temprature = 1',
      '3:3 sampling.temprature — Unknown key temprature in [sampling]; did you mean temperature?',
    ],
    ['[lora]\nrang = 8', '2:1 lora.rang — Unknown key rang in [lora]; did you mean rank?'],
    [
      'sampling = { max_token = 4 }',
      '1:14 sampling.max_token — Unknown key max_token in [sampling]; did you mean max_tokens?',
    ],
    ['[smapling]\ntemperature = 1\ntop_p = 0.5', '1:2 smapling — Unknown key smapling; did you mean sampling?'],
    ['[[env]]\nid = "a"\nweigth = 2', '3:1 env[0].weigth — Unknown key weigth in [env[]]; did you mean weight?'],
    [
      '[deployment]\nnum_train_gpu = 2',
      '2:1 deployment.num_train_gpu — Unknown key num_train_gpu in [deployment]; did you mean num_train_gpus?',
    ],
    ['[slurm]\npartitoin = "a"', '2:1 slurm.partitoin — Unknown key partitoin in [slurm]; did you mean partition?'],
    [
      '[orchestrator]\ngroup_sizes = 8',
      '2:1 orchestrator.group_sizes — Unknown key group_sizes in [orchestrator]; did you mean group_size?',
    ],
    [
      '[trainer.optim]\nmax_normm = 1',
      '2:1 trainer.optim.max_normm — Unknown key max_normm in [trainer.optim]; did you mean max_norm?',
    ],
    [
      '[trainer.args]\nnum_generatons = 8',
      '2:1 trainer.args.num_generatons — Unknown key num_generatons in [trainer.args]; did you mean num_generations?',
    ],
  ])('%j', (text, expected) => {
    expect(only(text).slice(0, expected.length)).toBe(expected)
  })

  test('a key like no other is told where to look', () => {
    expect(only('zzzzzzzzzzzz = 1')).toContain('see docs/config.md for every key')
    expect(only('[checkpointing]\nzzzzzzzz = 1')).toContain('the keys here are save_every_n_steps')
  })

  test('the args of a bundled environment are checked', () => {
    expect(only('[[env]]\nid = "reverse-text"\nargs = { min_lenght = 4 }')).toBe(
      '3:10 env[0].args.min_lenght — Unknown key min_lenght in env[0].args; did you mean min_length?',
    )
    expect(only('[env]\nid = "reverse-text"\n[env.args]\nmin_length = "4"')).toBe(
      '4:14 env.args.min_length — env[0].args.min_length must be a number, but it is the text "4"; write 4 without quotes.',
    )
  })

  test('inside a list whose entries have keys of their own', () => {
    expect(only('[[pre_batch_filters]]\ntype = "gibberish"\nenforced = true')).toBe(
      '3:1 pre_batch_filters[0].enforced — Unknown key enforced in pre_batch_filters[0]; did you mean enforce?',
    )
  })
})

describe('values', () => {
  test.each([
    ['batch_size = 12.5', '1:14 batch_size — batch_size must be a whole number, but it is 12.5.'],
    [
      'learning_rate = "1e-5"',
      '1:17 learning_rate — learning_rate must be a number, but it is the text "1e-5"; write 1e-5 without quotes.',
    ],
    [
      '[lora]\nenabled = "True"',
      '2:11 lora.enabled — lora.enabled must be true or false, but it is the text "True"; write true without quotes.',
    ],
    ['max_steps = 0', '1:13 max_steps — max_steps must be 1 or more, but it is 0.'],
    [
      '[sampling]\ntemperature = 2.5',
      '2:15 sampling.temperature — sampling.temperature must be 2 or less, but it is 2.5.',
    ],
    ['[optimizer]\nepsilon = 0', '2:11 optimizer.epsilon — optimizer.epsilon must be more than 0, but it is 0.'],
    [
      '[optimizer]\ntype = "adamww"',
      '2:8 optimizer.type — optimizer.type must be one of adamw, muon, sgd, but it is the text "adamww"; did you mean adamw?',
    ],
    ['sampling = 5', '1:12 sampling — sampling must be a table, but it is 5.'],
    ['model = 5', '1:9 model — model must be a text in quotes, but it is 5.'],
    ['env = "reverse-text"', '1:7 env — env must be a list, [ … ], but it is the text "reverse-text".'],
    ['[sampling]\nstop = "x"', '2:8 sampling.stop — sampling.stop must be a list, [ … ], but it is the text "x".'],
    ['[[env]]\nratio = 1', '1:3 env[0].id — env[0].id is missing; it is a text in quotes.'],
    [
      '[lora]\ntarget_modules = []',
      '2:18 lora.target_modules — lora.target_modules must have at least 1 entries, but it has 0.',
    ],
    ['lora_rank = 0', '1:13 lora_rank — lora_rank (lora.r here) must be 1 or more, but it is 0.'],
    [
      '[orchestrator]\ngroup_size = "8"',
      '2:14 orchestrator.group_size — orchestrator.group_size (rollouts_per_example here) must be a number, but it is the text "8"; write 8 without quotes.',
    ],
    ['name = 2024-01-01', '1:8 name — name is a date; write it as a text in quotes.'],
    [
      'learning_rate = inf',
      '1:17 learning_rate — learning_rate is Infinity, which is not finite; leave it out or give a number.',
    ],
    [
      '[[env]]\nid = "a"\nargs = { "__proto__" = 1 }',
      '3:10 env[0].args.__proto__ — __proto__ cannot be the name of a key; choose another.',
    ],
    [
      '[optimizer]\nbetas = 0.9',
      '2:1 optimizer.betas — optimizer.betas: betas is a list of two numbers, [0.9, 0.95] for example.',
    ],
    [
      'lora_rank = 8\n[lora]\nr = 16',
      '3:1 lora.r — lora.r is given twice, as lora_rank = 8 and as lora.r = 16; keep one of them.',
    ],
  ])('%j', (text, expected) => {
    expect(only(text)).toBe(expected)
  })
})

describe('knobs that must agree', () => {
  test.each([
    [
      'batch_size = 100\nrollouts_per_example = 8',
      '1:14 batch_size — batch_size = 100 cannot be split into groups of rollouts_per_example = 8; use 96 or 104.',
    ],
    [
      'batch_size = 4',
      '1:14 batch_size — batch_size = 4 cannot be split into groups of rollouts_per_example = 8; use 8.',
    ],
    ['rollouts_per_example = 1', '1:24 rollouts_per_example — rollouts_per_example = 1 leaves nothing to compare with'],
    [
      '[orchestrator]\ngroup_size = 1',
      '2:14 orchestrator.group_size — rollouts_per_example = 1 leaves nothing to compare with',
    ],
    [
      'max_concurrent = 15\nworkers_per_env = 2',
      '1:18 max_concurrent — max_concurrent = 15 is too small for rollouts_per_example = 8 × workers_per_env = 2; use 16 or more.',
    ],
    ['max_inflight_rollouts = 4', '1:25 max_inflight_rollouts — max_concurrent = 4 is too small'],
    [
      'max_steps = 10\n[scheduler]\ntype = "linear"\nwarmup_steps = 5\ndecay_steps = 6',
      '5:15 scheduler.decay_steps — scheduler.warmup_steps = 5 and scheduler.decay_steps = 6 do not fit into max_steps = 10',
    ],
    ['max_steps = 10\nwarmup_steps = 11', '2:16 warmup_steps — scheduler.warmup_steps = 11 do not fit'],
    [
      'max_steps = 10\n[scheduler]\ntype = "cosine"\nwarmup_steps = 10',
      '4:16 scheduler.warmup_steps — scheduler.warmup_steps = 10 do not fit into max_steps = 10, and a cosine needs steps after its warm-up',
    ],
    ['[scheduler]\nmin_lr = 1e-2', '2:10 scheduler.min_lr — scheduler.min_lr = 0.01 is above learning_rate = 1e-4.'],
    [
      '[buffer]\neasy_threshold = 0.2\nhard_threshold = 0.8',
      '2:18 buffer.easy_threshold — buffer.easy_threshold = 0.2 must be above buffer.hard_threshold = 0.8',
    ],
    [
      '[difficulty_filter]\nenabled = true\nmin_reward = 0.9\nmax_reward = 0.1',
      '3:14 difficulty_filter.min_reward — difficulty_filter.min_reward = 0.9 must be below max_reward = 0.1',
    ],
    [
      '[curriculum.advantage_range]\nreject_min = 1',
      '1:1 curriculum.advantage_range — curriculum.advantage_range runs from reject_min = 1 down to reject_max = 0',
    ],
    [
      '[sampling]\ntemperature = 0',
      '2:15 sampling.temperature — sampling.temperature = 0 gives every rollout of a group the same tokens',
    ],
    [
      '[sampling]\nenable_thinking = true\nreasoning_effort = "low"',
      '3:20 sampling.reasoning_effort — sampling.enable_thinking and sampling.reasoning_effort exclude each other',
    ],
    [
      '[sampling]\nmin_tokens = 600',
      '2:14 sampling.min_tokens — sampling.min_tokens = 600 is more than sampling.max_tokens = 512.',
    ],
    [
      'seq_len = 64\n[sampling]\nmax_tokens = 64',
      '3:14 sampling.max_tokens — sampling.max_tokens = 64 leaves no room for a prompt in seq_len = 64',
    ],
    [
      '[[env]]\nid = "a"\n[[env]]\nid = "a"',
      '4:6 env[1].id — Two environments are called a; give one of them another name.',
    ],
  ])('%j', (text, expected) => {
    expect(only(text).slice(0, expected.length)).toBe(expected)
  })

  test('a disagreement is shown where the file says its part of it', () => {
    expect(only('rollouts_per_example = 7')).toMatch(/^1:24 rollouts_per_example — batch_size = 128 cannot be split/)
    expect(only('seq_len = 100')).toMatch(/^1:11 seq_len — sampling\.max_tokens = 512 leaves no room/)
  })

  test('a group of one is allowed where nothing is compared', () => {
    expect(load('rollouts_per_example = 1\nadvantage = { type = "none" }').problems).toBeUndefined()
  })

  test('temperature 0 is allowed for evaluation', () => {
    expect(load('[eval]\ntemperature = 0').config?.eval.temperature).toBe(0)
  })
})

describe('together', () => {
  test('all problems come at once, in the order of the file', () => {
    const text = 'batch_sise = 8\n[sampling]\ntemperature = "hot"\ntop_p = 3\n[lorra]\nr = 1'
    expect(problemsOf(text).map((problem) => problem.split(' ')[0])).toEqual(['1:1', '3:15', '4:9', '5:2'])
  })

  test('an object has paths but no lines, and so has --set', () => {
    expect(problemsOf({ sampling: { temperature: 3 } })).toEqual([
      'null:null sampling.temperature — sampling.temperature must be 2 or less, but it is 3.',
    ])
    expect(problemsOf('batch_size = 8', ['batch_size=7'])[0]).toMatch(/^null:null batch_size — batch_size = 7 cannot/)
    expect(problemsOf('', ['nonsense'])[0]).toContain('--set nonsense is not of the form path=value')
  })

  test('what --set says is put over the file, whose job and dialect stay what they are', () => {
    const { config } = load('lora_rank = 8\n[[env]]\nid = "reverse-text"', {
      set: [
        'lora.r=4',
        'trainer.optim.lr=2e-3',
        'data.name=x',
        'env.0.args.max_length=9',
        'optimizer.betas=[0.8, 0.9]',
      ],
    })
    expect(config).toMatchObject({
      type: 'rl',
      learning_rate: 2e-3,
      lora: { enabled: true, r: 4 },
      optimizer: { beta1: 0.8, beta2: 0.9 },
      env: [{ id: 'reverse-text', args: { max_length: 9 } }],
    })
  })

  test('a terminal can follow the line of a problem', () => {
    const { problems = [] } = load('\nbatch_size = 4')
    expect(lineOf(problems[0], 'a.toml')).toMatch(/^a\.toml:2:14: batch_size = 4 cannot/)
  })
})

describe('the nearest name', () => {
  test('counts insertions, deletions, replacements and swaps', () => {
    // temprature → temperature: one letter put in. smapling → sampling: m and a swapped. kitten → sitting: 3.
    expect(editDistance('temprature', 'temperature')).toBe(1)
    expect(editDistance('smapling', 'sampling')).toBe(1)
    expect(editDistance('kitten', 'sitting')).toBe(3)
    expect(editDistance('', 'abc')).toBe(3)
  })

  test('is none where too much would have to change', () => {
    expect(nearest('zebra', ['batch_size', 'seed'])).toBeNull()
    expect(nearest('Learning-Rate', ['learning_rate'])).toBe('learning_rate')
  })
})
