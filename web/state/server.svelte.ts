// The server that sent this page: who one is there, its models, and the chat with them. Absent where a static folder sent
// the page.

import { serverSpeaker } from '../chat/serverSpeaker.ts'
import type { Speaker } from '../chat/speaker.ts'
import { Chat } from './chat.svelte.ts'
import { Fleet, type ModelName } from './fleet.svelte.ts'

export type ModelsView = 'chat' | 'nodes' | 'adapters'

/** A model in this tab that can be talked to. */
export interface TabModel {
  id: string
  shown: string
  speaker: () => Promise<Speaker>
}

const KINDS: { kind: ModelName['kind']; label: string }[] = [
  { kind: 'model', label: 'Models' },
  { kind: 'alias', label: 'Aliases' },
  { kind: 'adapter', label: 'Adapters' },
]

export class Server {
  readonly fleet = new Fleet()
  readonly chat = new Chat()
  view = $state<ModelsView>('chat')
  #wanted = $state<string | null>(null)
  #tabModels = $state.raw<TabModel[]>([])
  mayOperate = $state(false)

  /** The server's name as the address bar has it. */
  readonly host = location.host

  readonly choices = $derived.by(() => {
    const groups = KINDS.map(({ kind, label }) => ({
      label,
      names: this.fleet.models
        .filter((model) => model.kind === kind)
        .map(({ id, nodes }) => ({ id, shown: nodes.length > 0 ? `${id} · ${nodes.join(', ')}` : id })),
    }))
    const here = this.#tabModels.map(({ id, shown }) => ({ id, shown }))
    return [{ label: 'In this tab', names: here }, ...groups].filter(({ names }) => names.length > 0)
  })

  /** The model that is asked; null while none is known. */
  get model(): string | null {
    const names = this.choices.flatMap((group) => group.names.map(({ id }) => id))
    return names.find((id) => id === this.#wanted) ?? names[0] ?? null
  }
  set model(id: string | null) {
    this.#wanted = id
  }

  readonly whereChatGoes = $derived.by(() => {
    if (this.#tabModels.some(({ id }) => id === this.model))
      return 'Computed in this tab: nothing of the chat leaves it.'
    return `What you write goes to the server at ${this.host}, and from there to the node that answers.`
  })

  speaker(model: string): Promise<Speaker> | Speaker {
    const here = this.#tabModels.find(({ id }) => id === model)
    return here ? here.speaker() : serverSpeaker(model)
  }

  /** Offers a model of this tab beside those of the server, and asks it next. */
  addTabModel(model: TabModel): void {
    this.#tabModels = [model, ...this.#tabModels.filter(({ id }) => id !== model.id)]
    this.#wanted = model.id
  }
}
