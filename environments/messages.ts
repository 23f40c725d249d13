// What passes between an environment and whatever plays in it: messages and examples, never token ids or tensors.

/** One chat message, as in the OpenAI chat format. */
export interface Message {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content: string
  tool_calls?: ToolCall[]
  tool_call_id?: string
  name?: string
}

export interface ToolCall {
  id: string
  name: string
  /** JSON text, exactly as the model wrote it. */
  arguments: string
}

/** A function that the policy may call, as in the OpenAI chat format; the chat template writes it into the prompt. */
export interface ToolDefinition {
  type: 'function'
  function: {
    name: string
    description: string
    /** JSON Schema of the arguments. */
    parameters: Record<string, unknown>
  }
}

/** One row of a dataset, after the system prompt and few-shot messages have been put in front. */
export interface Example {
  exampleId: number
  prompt: Message[]
  answer: string
  info: Record<string, unknown>
  /** Which environment of a group asked; the environment's own id otherwise. */
  task: string
}

export type Split = 'train' | 'eval'
