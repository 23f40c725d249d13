// Text to token ids and back, by the model's own tokenizer.json (@huggingface/tokenizers). Knows nothing of chats.

import { Tokenizer as HubTokenizer } from '@huggingface/tokenizers'

export interface Tokenizer {
  /** Special tokens in the text become their ids; none are added. */
  encode(text: string): number[]
  /** Without special tokens. */
  decode(ids: ArrayLike<number>): string
  /** Each token's own text, special ones spelled out; a token that holds part of a character shows U+FFFD. */
  tokens(ids: ArrayLike<number>): string[]
  tokenId(token: string): number | undefined
}

export function createTokenizer(tokenizerJson: object, tokenizerConfig: object): Tokenizer {
  const hub = new HubTokenizer(tokenizerJson, tokenizerConfig)
  const cache = new Map<number, string>()
  const spell = (id: number): string => {
    let text = cache.get(id)
    if (text === undefined) {
      text = hub.decode([id], { skip_special_tokens: false, clean_up_tokenization_spaces: false })
      cache.set(id, text)
    }
    return text
  }
  return {
    encode: (text) => hub.encode(text, { add_special_tokens: false }).ids,
    decode: (ids) =>
      ids.length === 0
        ? ''
        : hub.decode(Array.from(ids), { skip_special_tokens: true, clean_up_tokenization_spaces: false }),
    tokens: (ids) => Array.from(ids, spell),
    tokenId: (token) => hub.token_to_id(token),
  }
}
