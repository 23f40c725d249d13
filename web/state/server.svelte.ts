// The server that sent this page: who one is there, its models, and the chat with them. Absent where a static folder sent
// the page.

import type { ModelSource } from '../../workers/completions/protocol.ts'
import type { ExportedFile } from '../../workers/protocol.ts'
import { serverSpeaker } from '../chat/serverSpeaker.ts'
import type { Speaker } from '../chat/speaker.ts'
import { tabSpeaker } from '../chat/tabSpeaker.ts'
import { type OpenPrompter, openPrompter } from '../connect.ts'
import type { ServerLine } from '../server/connection.ts'
import { Chat } from './chat.svelte.ts'
import { Fleet, type ModelName } from './fleet.svelte.ts'
import { Offer } from './offer.svelte.ts'
import { Session } from './session.svelte.ts'

export type ModelsView = 'chat' | 'nodes' | 'adapters'

/** A model in this tab that can be talked to. */
interface TabModel {
  id: string
  shown: string
  speaker: Promise<Speaker>
}

const KINDS: { kind: ModelName['kind']; label: string }[] = [
  { kind: 'model', label: 'Models' },
  { kind: 'alias', label: 'Aliases' },
  { kind: 'adapter', label: 'Adapters' },
]

export class Server {
  readonly session = new Session()
  readonly offer = new Offer()
  readonly fleet = new Fleet()
  readonly chat = new Chat()
  view = $state<ModelsView>('chat')
  #wanted = $state<string | null>(null)
  #tabModels = $state.raw<TabModel[]>([])
  #prompter: Promise<OpenPrompter> | null = null
  /** False while the server is not heard. */
  #heard = $state(true)

  /** The server's name as the address bar has it. */
  readonly host = location.host

  readonly line: ServerLine = {
    engine: () => this.offer.target,
    contact: (heard) => {
      this.#heard = heard
    },
  }

  get heard() {
    return this.#heard
  }
  get mayOperate() {
    return this.session.scopes.includes('operator')
  }
  /** What the server computes on, as its measurements tell. */
  get deviceLabel(): { fast: boolean | null; label: string } {
    return this.offer.deviceLabel
  }

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

  /** A model's name as a reader knows it. */
  shownName(id: string): string {
    return this.#tabModels.find((one) => one.id === id)?.shown ?? id
  }

  speaker(model: string): Promise<Speaker> | Speaker {
    const here = this.#tabModels.find(({ id }) => id === model)
    return here?.speaker ?? serverSpeaker(model)
  }

  /** Gives an adapter to the nodes, under a name made from this one; a name that is there gets another version. */
  async serveOnNodes(name: string, files: ExportedFile[]): Promise<void> {
    await this.fleet.upload(adapterName(name), files)
    this.view = 'adapters'
  }

  /** Opens a model in a worker of this tab, and asks it next. A failure is told to whoever asks it. */
  tryHere(id: string, shown: string, source: ModelSource): void {
    const speaker = this.#openHere(source)
    speaker.catch(() => {})
    this.#tabModels = [{ id, shown, speaker }, ...this.#tabModels.filter((one) => one.id !== id)]
    this.#wanted = id
    this.view = 'chat'
  }

  async #openHere(source: ModelSource): Promise<Speaker> {
    this.#prompter ??= openPrompter()
    const { prompter } = await this.#prompter.catch((error) => {
      this.#prompter = null
      throw error
    })
    await prompter.open(source)
    return tabSpeaker(prompter, source.key)
  }
}

/** Letters, digits, dashes and underscores, 48 at most. */
function adapterName(name: string): string {
  return (
    name
      .replace(/[^A-Za-z0-9_-]+/g, '-')
      .replace(/^[-_]+/, '')
      .slice(0, 48) || 'adapter'
  )
}
