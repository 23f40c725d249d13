// The OpenAPI document as a page to read: one file without scripts, in light and dark.

import { html, raw } from 'hono/html'
import type { OpenApiDocument, Operation } from './openapi.ts'

const STYLE = `
  :root { color-scheme: light dark; --line: light-dark(#ddd, #444); --quiet: light-dark(#666, #aaa) }
  body { font: 15px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
  h2 { margin: 2.5rem 0 .5rem; text-transform: capitalize }
  details { border-top: 1px solid var(--line); padding: .4rem 0 }
  summary { cursor: pointer; display: flex; gap: .8rem; align-items: baseline; flex-wrap: wrap }
  code, pre { font: 13px/1.45 ui-monospace, monospace }
  .method { font-weight: 600; min-width: 4rem } .quiet { color: var(--quiet) }
  pre { background: light-dark(#f5f5f5, #1c1c1c); padding: .7rem; overflow: auto; max-height: 28rem }
  table { border-collapse: collapse } td { padding: .15rem 1rem .15rem 0; vertical-align: top }
`

interface Route extends Operation {
  method: string
  path: string
}

export function page(document: OpenApiDocument) {
  const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Route => ({ ...operation, method: method.toUpperCase(), path })),
  )
  const tags = [...new Set(routes.map(tagOf))]
  const { title, description } = document.info
  return html`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${title}: the API</title>
<style>${raw(STYLE)}</style>
<h1>${title}: the API</h1>
<p>${description ?? ''}</p>
<p>For programs: <a href="openapi.json">openapi.json</a> (OpenAPI ${document.openapi}).</p>
${tags.map((tag) => html`<h2 id="${tag}">${tag}</h2>${routes.filter((route) => tagOf(route) === tag).map(section)}`)}
</html>
`
}

const tagOf = ({ tags }: Operation) => tags?.[0] ?? 'other'

function section({ method, path, summary, description, parameters = [], requestBody, responses = {} }: Route) {
  return html`<details id="${method}-${path}">
<summary><span class="method">${method}</span><code>${path}</code><span class="quiet">${summary ?? ''}</span></summary>
${description ? html`<p>${description}</p>` : ''}
${
  parameters.length
    ? html`<h4>Parameters</h4><table>${parameters.map(
        (parameter) =>
          html`<tr><td><code>${parameter.name}</code></td><td class="quiet">${parameter.in}${parameter.required ? ', required' : ''}</td><td>${parameter.description ?? ''}</td></tr>`,
      )}</table>`
    : ''
}
${requestBody ? html`<h4>Body</h4>${contents(requestBody.content)}` : ''}
${Object.entries(responses).map(
  ([status, response]) =>
    html`<h4>${status} <span class="quiet">${response.description ?? ''}</span></h4>${contents(response.content)}`,
)}
</details>`
}

function contents(content: Record<string, { schema?: object }> = {}) {
  return Object.entries(content).map(
    ([type, { schema }]) =>
      html`<p class="quiet">${type}</p>${schema ? html`<pre>${JSON.stringify(schema, null, 2)}</pre>` : ''}`,
  )
}
