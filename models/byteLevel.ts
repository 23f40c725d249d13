// The tokenizer of the bundled checkpoints: one token per byte of UTF-8, id = byte, then three special tokens. Written as
// Hugging Face's tokenizer.json, so that transformers and vLLM read the same folder.

const SPECIAL_TOKENS = ['<|im_start|>', '<|im_end|>', '<|endoftext|>'] as const

/** 256 bytes, the special tokens, and a few unused ids that round the vocabulary to a multiple of 8. */
export const BYTE_VOCABULARY = 264

/** ChatML: each message between its two marks. */
const CHATML_TEMPLATE =
  "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

// GPT-2's table: printable bytes stand for themselves, the others for code points from 256 on.
function byteCharacters(): string[] {
  const printable = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174
  let next = 256
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printable(byte) ? byte : next++))
}

export function byteTokenizerJson(): object {
  const vocab: Record<string, number> = {}
  byteCharacters().forEach((character, byte) => {
    vocab[character] = byte
  })
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: SPECIAL_TOKENS.map((content, i) => ({
      id: 256 + i,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    normalizer: null,
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab,
      merges: [],
    },
  }
}

export function byteTokenizerConfig(maxLength: number): object {
  return {
    tokenizer_class: 'PreTrainedTokenizerFast',
    bos_token: null,
    eos_token: '<|im_end|>',
    pad_token: '<|endoftext|>',
    model_max_length: maxLength,
    clean_up_tokenization_spaces: false,
    chat_template: CHATML_TEMPLATE,
  }
}

export interface Qwen3Size {
  hidden_size: number
  num_hidden_layers: number
  num_attention_heads: number
  num_key_value_heads: number
  head_dim: number
  intermediate_size: number
  max_position_embeddings: number
  rope_theta: number
  tie_word_embeddings: boolean
  vocab_size: number
}

/** A Qwen3 config.json (transformers' `Qwen3Config`). */
export function qwen3Config(size: Qwen3Size, dtype: 'float16' | 'float32'): Record<string, unknown> {
  return {
    architectures: ['Qwen3ForCausalLM'],
    model_type: 'qwen3',
    ...size,
    rms_norm_eps: 1e-6,
    hidden_act: 'silu',
    attention_bias: false,
    attention_dropout: 0,
    initializer_range: 0.02,
    use_cache: true,
    use_sliding_window: false,
    sliding_window: null,
    rope_scaling: null,
    bos_token_id: null,
    eos_token_id: 257,
    pad_token_id: 258,
    torch_dtype: dtype,
  }
}
