import { describe, expect, test } from 'vitest'
import { loadEndpoints } from '../../configs/endpoints.ts'
import { FIRST_RECIPE, findRecipe, recipes } from '../../configs/index.ts'
import { jobOf } from '../../configs/job.ts'
import { loadJob } from '../../configs/jobs.ts'
import { load } from '../../configs/load.ts'
import { evaluations } from '../../configs/schema/evaluation.ts'

describe('the recipes', () => {
  test.each(recipes.map((recipe) => [recipe.id, recipe] as const))('%s loads without a warning', (_, recipe) => {
    const loaded = loadJob(recipe.text)
    if (loaded.problems) throw new Error(loaded.problems.map(({ sentence }) => sentence).join('\n'))
    expect(loaded.job).toBe(recipe.job)
    expect(loaded.notes.filter(({ warning }) => warning)).toEqual([])
  })

  test.each(recipes)('$id begins by saying what one should see', ({ title, about }) => {
    expect(title).toMatch(/^[A-Z]/)
    expect(about[0]).toMatch(/^What you should see: /)
  })

  test('there is one for every job, and three for RL', () => {
    expect(recipes[0].id).toBe(FIRST_RECIPE)
    expect(recipes.map(({ id }) => id).sort()).toEqual([
      'eval/reverse-text',
      'gepa/reverse-text',
      'rl/reverse-text',
      'rl/reverse-text-full',
      'rl/reverse-text-nano',
      'sft/reverse-text',
    ])
    expect(findRecipe('reverse-text')?.id).toBe('rl/reverse-text')
    expect(findRecipe('nothing')).toBeNull()
  })

  test('the first is the run that the results are about', () => {
    expect(load(findRecipe('rl/reverse-text')!.text).config).toMatchObject({
      model: 'lab-tiny',
      seed: 1,
      max_steps: 40,
      batch_size: 128,
      rollouts_per_example: 8,
      learning_rate: 1e-3,
      optimizer: { beta1: 0.9, beta2: 0.95, weight_decay: 0 },
      scheduler: { type: 'constant', warmup_steps: 5 },
      sampling: { max_tokens: 64, temperature: 1 },
      lora: { r: 16, alpha: 32 },
      loss: { type: 'default' },
      eval: { interval: 5, num_examples: 128 },
      env: [{ id: 'reverse-text', args: {} }],
    })
  })

  test('the second is small enough for a machine without a GPU', () => {
    expect(load(findRecipe('reverse-text-nano')!.text).config).toMatchObject({
      model: 'lab-nano',
      max_steps: 15,
      batch_size: 64,
      learning_rate: 2e-3,
      sampling: { max_tokens: 24 },
      env: [{ args: { min_length: 4, max_length: 8, system_prompt: 'Reverse.', tag: 'r' } }],
    })
  })
})

describe('which job a file describes', () => {
  test.each([
    [{ env_id: 'a', max_calls: 10 }, 'gepa'],
    [{ gepa: { max_calls: 1 }, env: [{ env_id: 'a' }] }, 'gepa'],
    [{ eval: [{ env_id: 'a' }] }, 'eval'],
    [{ ablation: [] }, 'eval'],
    [{ env_id: 'a', num_examples: 4 }, 'eval'],
    [{ eval: { interval: 5 } }, 'rl'],
    [{ data: { name: 'd' } }, 'sft'],
    [{ data: { name: 'd' }, env: [] }, 'rl'],
    [{ type: 'sft' }, 'sft'],
    [{ type: 'full_finetune' }, 'rl'],
    [{ endpoint: [] }, 'endpoints'],
    [{}, 'rl'],
  ] as const)('%j is %s', (file, job) => {
    expect(jobOf(file)).toBe(job)
  })
})

describe('a prompt optimisation', () => {
  test('takes the names of every GEPA command', () => {
    const loaded = loadJob(
      '[gepa]\nmax_total_rollouts = 9\nreflection_minibatch_size = 4\nreflection_columns = ["a"]\n[[env]]\nenv_id = "reverse-text"\nargs = { min_length = 4 }\n[sampling]\nmax_tokens = 9\n',
    )
    expect(loaded.problems?.map(({ sentence }) => sentence)).toEqual(['model is missing; it is a text in quotes.'])
    expect(
      loadJob(
        'type = "gepa"\nmodel = "m"\n[gepa]\nmax_total_rollouts = 9\nreflection_minibatch_size = 4\n[[env]]\nenv_id = "reverse-text"\nargs = { min_length = 4 }\n',
      ),
    ).toMatchObject({
      job: 'gepa',
      config: {
        env_id: 'reverse-text',
        env_args: { min_length: 4 },
        model: 'm',
        max_calls: 9,
        minibatch_size: 4,
        num_train: 100,
        num_val: 50,
        perfect_score: null,
      },
    })
  })

  test('has problems with lines too', () => {
    expect(loadJob('env_id = "reverse-text"\nmodel = "m"\nmax_call = 3\nnum_val = 0').problems).toMatchObject([
      { line: 3, column: 1, sentence: 'Unknown key max_call; did you mean max_calls?' },
      { line: 4, column: 11, sentence: 'num_val must be 1 or more, but it is 0.' },
    ])
  })
})

describe('an evaluation', () => {
  test('gives every entry what it does not say itself', () => {
    const loaded = loadJob(
      'model = "a"\nnum_examples = 10\nmax_tokens = 32\n[[eval]]\nenv_id = "reverse-text"\n[[eval]]\nid = "reverse-text"\nname = "other"\nmodel = "b"\nnum_examples = 3\ntemperature = 0\nenv_args = { min_length = 4 }',
    )
    if (loaded.problems || loaded.job !== 'eval') throw new Error('not loaded')
    expect(evaluations(loaded.config)).toMatchObject([
      {
        id: 'reverse-text',
        name: 'reverse-text',
        model: 'a',
        num_examples: 10,
        rollouts_per_example: 3,
        max_tokens: 32,
        temperature: 1,
      },
      { id: 'reverse-text', name: 'other', model: 'b', num_examples: 3, temperature: 0, args: { min_length: 4 } },
    ])
  })

  test('opens an ablation into every combination', () => {
    const loaded = loadJob(
      '[[ablation]]\nenv_id = "reverse-text"\nenv_args = { max_length = 30 }\n[ablation.sweep]\ntemperature = [0.0, 1.0]\n[ablation.sweep.env_args]\nmin_length = [4, 8, 12]',
    )
    if (loaded.problems || loaded.job !== 'eval') throw new Error('not loaded')
    const all = evaluations(loaded.config)
    // 2 temperatures × 3 lengths
    expect(all).toHaveLength(6)
    expect(all[4]).toMatchObject({
      name: 'reverse-text temperature=1 min_length=8',
      temperature: 1,
      args: { min_length: 8, max_length: 30 },
    })
  })

  test('of nothing is a problem', () => {
    expect(loadJob('type = "eval"').problems?.[0].sentence).toContain('Nothing is to be evaluated')
  })
})

describe('endpoints.toml', () => {
  const TEXT = `[[endpoint]]
endpoint_id = "small"
model = "Qwen/Qwen3-4B"
url = "http://a:8000/v1"
key = "LAB_KEY"

[[endpoint]]
endpoint_id = "small"
model = "Qwen/Qwen3-4B"
url = "http://b:8000/v1"
extra_headers = { "X-Team" = "lab" }

[[endpoint]]
endpoint_id = "judge"
model = "m"
url = "https://c/v1"
api_client_type = "anthropic_messages"
`

  test('rows of one id are replicas, in order', () => {
    const { config, problems } = loadEndpoints(TEXT)
    expect(problems).toBeUndefined()
    expect([...config!.keys()]).toEqual(['small', 'judge'])
    expect(config!.get('small')).toMatchObject([
      { url: 'http://a:8000/v1', key: 'LAB_KEY', type: 'openai_chat_completions' },
      { url: 'http://b:8000/v1', key: null, headers: { 'X-Team': 'lab' } },
    ])
    expect(config!.get('judge')).toMatchObject([{ type: 'anthropic_messages' }])
  })

  test.each([
    [
      'model = "Qwen/Qwen3-4B"\nurl = "http://b',
      'model = "other"\nurl = "http://b',
      9,
      'Rows called small are replicas of one another, but their model differs',
    ],
    ['url = "https://c/v1"', 'url = "c"', 16, 'endpoint[2].url is not right'],
    ['url = "https://c/v1"', 'url = "file:///etc/passwd"', 16, 'endpoint[2].url is not right'],
    ['key = "LAB_KEY"', 'key = "sk-12 34"', 5, 'endpoint[0].key is not right'],
    ['anthropic_messages', 'anthropic', 17, 'endpoint[2].api_client_type (endpoint[2].type here) must be one of'],
    ['model = "m"\n', '', 13, 'endpoint[2].model is missing'],
  ])('%j → %j is a problem at its line', (from, to, line, sentence) => {
    const [problem] = loadEndpoints(TEXT.replace(from, to)).problems!
    expect(problem.line).toBe(line)
    expect(problem.sentence).toContain(sentence)
  })
})
