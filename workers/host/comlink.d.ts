// comlink ships its adapter for Node without types beside it.

declare module 'comlink/dist/esm/node-adapter.mjs' {
  export { default } from 'comlink/dist/umd/node-adapter'
}
