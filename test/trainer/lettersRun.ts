/** A short run of the table policy: 4 questions, 4 answers each, short answers, a learning rate that a table likes. */
export const LETTERS_RUN = {
  model: 'table',
  seed: 7,
  max_steps: 6,
  batch_size: 16,
  rollouts_per_example: 4,
  micro_batch_size: 3,
  learning_rate: 0.1,
  seq_len: 32,
  sampling: { max_tokens: 6 },
  env: [{ id: 'letters' }],
  optimizer: { weight_decay: 0 },
}
