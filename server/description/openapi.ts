// The OpenAPI document, drawn from the routes themselves and from the schemas that check their requests.

import type { Hono } from 'hono'
import { generateSpecs } from 'hono-openapi'
import { OPERATIONS } from './operations.ts'

export interface Operation {
  summary?: string
  description?: string
  tags?: string[]
  parameters?: { name: string; in: string; required?: boolean; description?: string; schema?: object }[]
  requestBody?: { description?: string; content?: Record<string, { schema?: object }> }
  responses?: Record<string, { description?: string; content?: Record<string, { schema?: object }> }>
}

export interface OpenApiDocument {
  openapi: string
  info: { title: string; version: string; description?: string }
  paths: Record<string, Record<string, Operation>>
  components?: { schemas?: Record<string, object>; securitySchemes?: Record<string, object> }
}

const DESCRIPTION = `The API of a Rollout Lab server. A program sends \`Authorization: Bearer KEY\`; a page of the server is
signed in by a cookie. Every error is \`{ "error": "a sentence" }\`; every answer carries \`X-Request-Id\`.`

export async function describe(app: Hono): Promise<OpenApiDocument> {
  const document = await generateSpecs(app, {
    includeEmptyPaths: true,
    exclude: ['/', '/api/openapi.json'],
    documentation: {
      info: { title: 'Rollout Lab', version: '1', description: DESCRIPTION },
      components: {
        securitySchemes: {
          key: { type: 'http', scheme: 'bearer' },
          page: { type: 'apiKey', in: 'cookie', name: 'rollout-lab' },
        },
      },
      security: [{ key: [] }, { page: [] }],
    },
  })
  return withOperations(document as unknown as OpenApiDocument)
}

/** Routes that do not describe themselves, by the list of those. */
function withOperations(document: OpenApiDocument): OpenApiDocument {
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, own] of Object.entries(methods)) {
      // The library tells of its own answer there, which no route of ours gives.
      if (own.responses?.[400]) own.responses[400] = { description: 'A sentence that says what is wrong.' }
      const about = OPERATIONS[`${method.toUpperCase()} ${path}`]
      if (!about || own.summary) continue
      const parameters = [...(own.parameters ?? []), ...(about.parameters ?? [])]
      methods[method] = { ...own, ...about, parameters }
    }
  }
  return document
}
