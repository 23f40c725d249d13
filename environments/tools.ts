// Environments whose policy may call functions. A call that cannot be read or that fails is answered with its error as
// text, so that the policy may try again; only errors that `stopOn` names end the rollout as errored.

import { z } from 'zod'
import {
  type Context,
  MultiTurnEnvironment,
  type MultiTurnOptions,
  type StopCondition,
  type Turn,
} from './environment.ts'
import type { Message, ToolCall, ToolDefinition } from './messages.ts'
import { contentsOf } from './parsers.ts'
import { Rubric, RubricGroup } from './rubric.ts'
import { nearest } from './similarity.ts'
import type { State } from './state.ts'

export interface Tool<Parameters extends z.ZodObject = z.ZodObject> {
  name: string
  description: string
  parameters: Parameters
  /** Parameters that the policy neither sees nor sets; `updateToolArgs` of a stateful environment gives them. */
  hidden?: readonly (string & keyof z.output<Parameters>)[]
  /** A text is handed to the policy as it is, anything else as JSON. */
  call(args: z.output<Parameters>, context: Context): unknown
}

/** Ties the type of `call`'s args to `parameters`. */
export function tool<Parameters extends z.ZodObject>(definition: Tool<Parameters>): Tool {
  return definition as unknown as Tool
}

export interface ToolOptions<Data extends object = object> extends MultiTurnOptions<Data> {
  tools: readonly Tool[]
  /** What the policy reads in place of a result; the error's message by default. */
  formatError?: (error: Error) => string
  /** Errors that are not the policy's to repair: they make the rollout errored. */
  stopOn?: (error: unknown) => boolean
}

type Args = Record<string, unknown>

/** Tools without state. The rollout ends when a message calls none. */
abstract class BaseToolEnvironment<Data extends object = object> extends MultiTurnEnvironment<Data> {
  readonly #tools: ReadonlyMap<string, Tool>
  readonly #formatError: (error: Error) => string
  readonly #stopOn: (error: unknown) => boolean

  constructor(options: ToolOptions<Data>) {
    const calls = new Rubric<Data>().addMetric('total_tool_calls', ['completion'], ({ completion }) =>
      countCalls(completion),
    )
    for (const { name } of options.tools)
      calls.addMetric(`${name}_calls`, ['completion'], ({ completion }) => countCalls(completion, name))
    super({ maxTurns: 10, ...options, rubric: new RubricGroup<Data>([options.rubric, calls]) })
    this.#tools = new Map(options.tools.map((each) => [each.name, each]))
    this.#formatError = options.formatError ?? ((error) => error.message)
    this.#stopOn = options.stopOn ?? (() => false)
  }

  /** What the policy gave, made into what the tool gets. */
  protected abstract completeArgs(
    name: string,
    args: Args,
    messages: Message[],
    state: State<Data>,
  ): Args | Promise<Args>

  override tools(_state: State<Data>): ToolDefinition[] {
    return [...this.#tools.values()].map(definitionOf)
  }

  override stopConditions(): StopCondition<Data>[] {
    const noCalls = (state: State<Data>) => (state.completion.at(-1)?.tool_calls ?? []).length === 0
    return [...super.stopConditions(), { name: 'no_tools_called', priority: 0, when: noCalls }]
  }

  override respond(state: State<Data>, message: Message, truncated: boolean, context?: Context): Promise<Turn> {
    return super.respond(state, withToolCalls(message, state.turn), truncated, context)
  }

  override async envResponse(messages: Message[], state: State<Data>, context: Context): Promise<Message[]> {
    const answers: Message[] = []
    for (const call of messages.at(-1)?.tool_calls ?? [])
      answers.push({
        role: 'tool',
        content: await this.#answer(call, messages, state, context),
        tool_call_id: call.id,
        name: call.name,
      })
    return answers
  }

  async #answer(call: ToolCall, messages: Message[], state: State<Data>, context: Context): Promise<string> {
    try {
      const found = this.#find(call.name)
      const given = checkArgs(found.name, visible(found), readArgs(call))
      // What the environment puts in is its own affair: it is neither checked nor copied, so it may be live state.
      const args = await this.completeArgs(found.name, given, messages, state)
      const result = await found.call(args, context)
      return typeof result === 'string' ? result : (JSON.stringify(result) ?? 'null')
    } catch (cause) {
      // A tool that gives up at the deadline is the environment's failure, not something the policy said.
      if (context.signal.aborted || this.#stopOn(cause)) throw cause
      return this.#formatError(cause instanceof Error ? cause : new Error(String(cause)))
    }
  }

  #find(name: string): Tool {
    const found = this.#tools.get(name)
    if (found) return found
    const known = [...this.#tools.keys()]
    const near = nearest(name, known)
    throw new Error(`There is no tool "${name}".${near ? ` Did you mean "${near}"?` : ''} Tools: ${known.join(', ')}.`)
  }
}

/** Tools without state. */
export class ToolEnvironment<Data extends object = object> extends BaseToolEnvironment<Data> {
  constructor(options: ToolOptions<Data>) {
    super(options)
    const hiding = options.tools.find(({ hidden }) => hidden && hidden.length > 0)
    if (hiding)
      throw new Error(
        `${options.id}: the tool "${hiding.name}" hides parameters, which needs a StatefulToolEnvironment.`,
      )
  }

  protected override completeArgs(_name: string, args: Args): Args {
    return args
  }
}

/** Tools that work on the rollout's state, through parameters that the policy does not see. */
export abstract class StatefulToolEnvironment<Data extends object = object> extends BaseToolEnvironment<Data> {
  /** The tool's args with the hidden ones put in; may change the state. */
  abstract updateToolArgs(name: string, args: Args, messages: Message[], state: State<Data>): Args | Promise<Args>

  protected override completeArgs(
    name: string,
    args: Args,
    messages: Message[],
    state: State<Data>,
  ): Args | Promise<Args> {
    return this.updateToolArgs(name, args, messages, state)
  }
}

/**
 * Calls written into the text, as Qwen and Hermes models write them: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`.
 * One that is not such JSON is kept as a call without a name, so that the policy is told.
 */
export function parseToolCalls(content: string, turn: number): ToolCall[] {
  return contentsOf(content, 'tool_call').map((text, index) => {
    const id = `call_${turn}_${index}`
    try {
      const { name, arguments: given = {} } = JSON.parse(text)
      if (typeof name === 'string')
        return { id, name, arguments: typeof given === 'string' ? given : JSON.stringify(given) }
    } catch {
      // falls through: told as a call without a name
    }
    return { id, name: '', arguments: text.trim() }
  })
}

function withToolCalls(message: Message, turn: number): Message {
  if (message.tool_calls !== undefined) return message
  const calls = parseToolCalls(message.content, turn)
  return calls.length === 0 ? message : { ...message, tool_calls: calls }
}

function readArgs(call: ToolCall): unknown {
  try {
    return JSON.parse(call.arguments === '' ? '{}' : call.arguments)
  } catch (cause) {
    throw new Error(`The arguments of "${call.name}" are not JSON: ${cause instanceof Error ? cause.message : cause}`)
  }
}

function checkArgs(name: string, parameters: z.ZodObject, args: unknown): Args {
  const parsed = parameters.safeParse(args)
  if (parsed.success) return parsed.data
  const problems = parsed.error.issues.map(({ path, message }) =>
    path.length > 0 ? `${path.join('.')}: ${message}` : message,
  )
  throw new Error(`The arguments of "${name}" do not fit: ${problems.join('; ')}.`)
}

function visible({ parameters, hidden = [] }: Tool): z.ZodObject {
  const mask = Object.fromEntries(hidden.map((name) => [name, true])) as Record<never, true>
  return hidden.length === 0 ? parameters : parameters.omit(mask)
}

function definitionOf(each: Tool): ToolDefinition {
  const { $schema: _, ...parameters } = z.toJSONSchema(visible(each), { io: 'input' })
  return { type: 'function', function: { name: each.name, description: each.description, parameters } }
}

function countCalls(completion: readonly Message[], name?: string): number {
  const calls = completion.flatMap((message) => (message.role === 'assistant' ? (message.tool_calls ?? []) : []))
  return name === undefined ? calls.length : calls.filter((call) => call.name === name).length
}
