// Whether a server of ours sent this page. It signs the page that it sends: asking for anything else would leave an error in
// the console of a static folder.

export const isServed: boolean = performance
  .getEntriesByType('navigation')
  .some((entry) => (entry as PerformanceNavigationTiming).serverTiming.some(({ name }) => name === 'rollout-lab'))

/** An address of the server that sent this page, wherever it is mounted. */
export function onServer(path: string): URL {
  return new URL(path, document.baseURI)
}
