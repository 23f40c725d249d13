// The door of the trainer's thread, in a page and in Node.

import { serveTrainer } from './host/trainerDoor.ts'

if (import.meta.env.SSR) {
  const { threadEndpoint } = await import('./host/thread.node.ts')
  serveTrainer(threadEndpoint(), async (place) => (await import('./host/realm.node.ts')).createRealm(place))
} else {
  serveTrainer(undefined, async (place) => (await import('./host/realm.browser.ts')).createRealm(place))
}
