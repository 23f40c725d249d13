// tfjs's Node platform calls a global `require` for two built-in modules; an ES module has none. Imported before tfjs.

interface Scope {
  require?: unknown
  process?: {
    versions?: { node?: string }
    getBuiltinModule?: (name: string) => { createRequire(from: string): unknown }
  }
}

const scope = globalThis as Scope
if (scope.process?.versions?.node && scope.require === undefined) {
  scope.require = scope.process.getBuiltinModule?.('node:module').createRequire('file:///')
}

export {}
