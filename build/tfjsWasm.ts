// Two repairs of the script that emscripten made for tfjs's wasm backend, so that it can be bundled.
//   It asks for `__dirname` in Node, which an ES module does not have.
//   Threads start from the text of its main function, which names a variable outside of itself, behind a `typeof` that
//   a minifier folds away.
// Both serve only to guess where the binaries lie, and that is always set.

import type { Plugin } from 'vite'

const GUESS = 'if(typeof _scriptDir !== "undefined" && _scriptDir){scriptDirectory=_scriptDir}'

export const tfjsWasm: Plugin = {
  name: 'rollout-lab:tfjs-wasm',
  transform: {
    filter: { id: /tfjs-backend-wasm\/wasm-out\/.*\.js$/ },
    handler: (code) => ({ code: `var __dirname = '';${code.replace(GUESS, '')}`, map: null }),
  },
}
