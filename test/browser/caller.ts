// The worker side of harness.ts: loads a module, calls one of its functions, answers with the result.

interface CallRequest {
  url: string
  exportName: string
  args: unknown[]
  port: MessagePort
}

self.onmessage = async ({ data: { url, exportName, args, port } }: MessageEvent<CallRequest>) => {
  try {
    const module = await import(/* @vite-ignore */ url)
    port.postMessage({ result: await module[exportName](...args) })
  } catch (error) {
    port.postMessage({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
  }
}
