// The config of a running server: read at the start, and read again when its file changes or the process gets SIGHUP. A
// file with a mistake changes nothing; what cannot change while the server runs is named and waits.

import { unwatchFile, watchFile } from 'node:fs'
import { readConfig, type ServerConfig, takeChanges } from './config.ts'
import type { Log } from './observe/log.ts'

const LOOK_EVERY_MS = 1_000

export class ConfigFile {
  #current: ServerConfig
  #listeners: ((config: ServerConfig) => void)[] = []
  #log: Log | null = null
  readonly #onSignal = () => this.reload()

  /** `over` is put over every reading: what the command line says. */
  constructor(
    readonly file: string | null,
    config: ServerConfig,
    private readonly over: (config: ServerConfig) => ServerConfig = (config) => config,
  ) {
    this.#current = over(config)
  }

  get current(): ServerConfig {
    return this.#current
  }

  onChange(listener: (config: ServerConfig) => void) {
    this.#listeners.push(listener)
  }

  watch(log: Log) {
    this.#log = log
    if (this.file === null) return
    watchFile(this.file, { interval: LOOK_EVERY_MS, persistent: false }, this.#onSignal)
    process.on('SIGHUP', this.#onSignal)
  }

  reload() {
    if (this.file === null) return
    let wanted: ServerConfig
    try {
      wanted = this.over(readConfig(this.file))
    } catch (error) {
      this.#log?.error({ file: this.file, problem: (error as Error).message }, 'config not taken')
      return
    }
    const { config, waiting } = takeChanges(this.#current, wanted)
    if (waiting.length > 0) this.#log?.warn({ file: this.file, waiting }, 'these wait for a restart')
    if (JSON.stringify(config) === JSON.stringify(this.#current)) return
    this.#current = config
    for (const listener of this.#listeners) listener(config)
    this.#log?.info({ file: this.file }, 'config taken')
  }

  close() {
    if (this.file === null) return
    unwatchFile(this.file, this.#onSignal)
    process.off('SIGHUP', this.#onSignal)
  }
}
