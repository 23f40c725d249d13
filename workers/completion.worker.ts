// The door of the thread that answers prompts, in a page and in Node.

import { serveCompleter } from './host/completerDoor.ts'

if (import.meta.env.SSR) {
  const { threadEndpoint } = await import('./host/thread.node.ts')
  serveCompleter(threadEndpoint(), async (place) => (await import('./host/realm.node.ts')).createRealm(place))
} else {
  serveCompleter(undefined, async (place) => (await import('./host/realm.browser.ts')).createRealm(place))
}
