// A node that answers at once, so that what is measured is the way to it. Streams on request: a chunk every so many ms.
// Prints its port.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const ANSWER = Buffer.from(
  JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'base',
    choices: [{ index: 0, message: { role: 'assistant', content: 'ok '.repeat(40) }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 20, completion_tokens: 40, total_tokens: 60 },
  }),
)
const CHUNK = `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'base', choices: [{ index: 0, delta: { content: 'word ' } }] })}\n\n`
const MODELS = JSON.stringify({ object: 'list', data: [{ id: 'base', object: 'model', root: 'base', parent: null }] })
const [chunks, every] = [Number(process.env.CHUNKS ?? 20), Number(process.env.EVERY ?? 50)]
const delay = Number(process.env.DELAY ?? 0)
/** SIGUSR2 makes it take requests without answering, and a second one ends that. */
let hung = false
process.on('SIGUSR2', () => {
  hung = !hung
})

const server = createServer((request, response) => {
  if (request.method === 'GET') {
    if (hung) return
    if (request.url === '/v1/models')
      return void response.writeHead(200, { 'content-type': 'application/json' }).end(MODELS)
    return void response.writeHead(request.url === '/health' ? 200 : 404).end()
  }
  const pieces: Buffer[] = []
  request.on('data', (piece) => pieces.push(piece))
  request.on('end', () => {
    if (hung) return
    const body = Buffer.concat(pieces)
    if (body.includes('"stream":true')) return stream()
    const answer = () =>
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': ANSWER.length }).end(ANSWER)
    if (delay) setTimeout(answer, delay)
    else answer()
  })
  const stream = () => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    let left = chunks
    const timer = setInterval(() => {
      response.write(CHUNK)
      if (--left > 0) return
      clearInterval(timer)
      response.end('data: [DONE]\n\n')
    }, every)
    response.on('close', () => clearInterval(timer))
  }
})
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`)
})
