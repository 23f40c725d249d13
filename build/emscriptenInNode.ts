// tfjs's wasm glue was written as CommonJS and asks for `__dirname` in Node; an ES module has none. The binaries
// themselves are found by the paths that a host sets, so any folder does.

import type { Plugin } from 'vite'

export const emscriptenInNode: Plugin = {
  name: 'rollout-lab:emscripten-in-node',
  transform: {
    filter: { id: /tfjs-backend-wasm\/wasm-out\/.*\.js$/ },
    handler: (code) => ({ code: `var __dirname = '';${code}`, map: null }),
  },
}
