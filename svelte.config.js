// Read by svelte-check and by Vite's plugin alike.
export default { compilerOptions: { runes: true } }
