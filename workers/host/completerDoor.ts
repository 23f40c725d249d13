// What the thread that answers prompts does: a completer on whatever its realm offers.

import { type Endpoint, expose } from 'comlink'
import { createCompleter } from '../completions/completer.ts'
import type { Completer } from '../completions/protocol.ts'
import type { Backend } from '../gpu/device.ts'
import { createAnsweringPolicy } from './answeringPolicy.ts'
import type { CompleterDoor } from './completerLine.ts'
import type { Realm } from './learner.ts'
import type { Place } from './link.ts'

/** `realm` is loaded when the completer is attached to its host. */
export function serveCompleter(endpoint: Endpoint | undefined, realm: (place: Place) => Promise<Realm>): void {
  let attached: Promise<Completer> | null = null
  const completer = () => attached ?? Promise.reject(new Error('internal: the completer is not attached to a host'))
  const door: CompleterDoor = {
    async attach(place, backend) {
      attached = realm(place).then((means) => onRealm(means, backend))
      await attached
    },
    open: async (source) => (await completer()).open(source),
    close: async (key) => (await completer()).close(key),
    renderChat: async (key, messages) => (await completer()).renderChat(key, messages),
    encode: async (key, text) => (await completer()).encode(key, text),
    decode: async (key, ids) => (await completer()).decode(key, ids),
    spell: async (key, ids) => (await completer()).spell(key, ids),
    score: async (key, ids) => (await completer()).score(key, ids),
    complete: async (request) => (await completer()).complete(request),
    abort: async (id) => (await completer()).abort(id),
    subscribe: async (listener) => (await completer()).subscribe(listener),
    load: async () => (await completer()).load(),
  }
  expose(door, endpoint)
}

function onRealm(realm: Realm, backend: Backend | 'auto'): Completer {
  return createCompleter({
    modelFiles: (name) => realm.modelFiles(name),
    openDevice: () => realm.openDevice(backend),
    createPolicy: createAnsweringPolicy,
  })
}
