// Every config that the tables of the compiler are tried on: the recipes and the TOML blocks of the training guides.

import { readdirSync, readFileSync } from 'node:fs'

const files = (folder: string) =>
  readdirSync(new URL(`../../${folder}/`, import.meta.url))
    .filter((name) => name.endsWith('.toml'))
    .sort()
    .map((name) => `${folder}/${name}`)

export const EXAMPLES = [
  ...['rl', 'sft', 'eval', 'gepa'].flatMap((job) => files(`configs/${job}`)),
  ...files('test/configs/blocks'),
]

export const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
