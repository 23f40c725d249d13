// Takes in a request's body: to the byte of its limit, and within its time, however slowly the client sends.

import type { IncomingMessage } from 'node:http'
import { isJson } from './headers.ts'
import { Refusal } from './refusal.ts'

/** Resolves to null when the client left before it had sent all. */
export function receive(incoming: IncomingMessage, limit: number, seconds: number): Promise<Buffer | null> {
  const { 'content-type': type, 'content-encoding': encoding, 'content-length': length } = incoming.headers
  if (!isJson(type ?? ''))
    throw new Refusal(415, 'not_json', `The body has to be application/json, and came as ${type ?? 'nothing'}.`)
  if (encoding !== undefined && encoding !== 'identity')
    throw new Refusal(415, 'encoded', `The body has to come as it is, and came as ${encoding}.`)
  if (Number(length) > limit) throw tooLarge(limit)

  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    let size = 0
    const timer = setTimeout(() => {
      const sentence = `The body was not whole after ${seconds} s.`
      stop(() => reject(new Refusal(408, 'slow_body', sentence)))
    }, seconds * 1000)
    const stop = (then: () => void) => {
      clearTimeout(timer)
      incoming.off('data', onData).off('end', onEnd).off('close', onClose).off('error', onClose)
      then()
    }
    const onData = (piece: Buffer) => {
      size += piece.length
      if (size > limit) stop(() => reject(tooLarge(limit)))
      else pieces.push(piece)
    }
    const onEnd = () => stop(() => resolve(pieces.length === 1 ? pieces[0] : Buffer.concat(pieces)))
    const onClose = () => stop(() => resolve(null))
    incoming.on('data', onData).on('end', onEnd).on('close', onClose).on('error', onClose)
  })
}

function tooLarge(limit: number) {
  return new Refusal(413, 'too_large', `The body is larger than ${limit} bytes.`)
}
