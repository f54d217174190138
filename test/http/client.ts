import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import type { HeaderPair } from '../../src/index.js'
import { type Seen, seen } from './seen.js'

export interface ClientParts {
  method?: string
  path?: string
  /** The value of the `Idempotency-Key` header, with its quotes. */
  key?: string
  headers?: Record<string, string | string[]>
  body?: string | Uint8Array
}

/** Sends a request over a connection of its own. Rejects if the connection breaks before the answer is whole. */
export function post(port: number, parts: ClientParts = {}): Promise<Seen> {
  return new Promise((resolve, reject) => open(port, parts, (response) => read(response).then(resolve, reject)).on('error', reject))
}

/** A request that the test holds in its hand: it can be broken off, or looked at half-way. */
export function open(port: number, parts: ClientParts, answered: (response: IncomingMessage) => void = () => {}): ClientRequest {
  const { method = 'POST', path = '/', key, headers = {}, body } = parts
  const inPieces = 'transfer-encoding' in headers
  const length: Record<string, string> = body === undefined || inPieces ? {} : { 'content-length': String(Buffer.byteLength(body)) }
  const request = httpRequest(
    {
      host: '127.0.0.1',
      port,
      method,
      path,
      agent: false,
      headers: { ...length, 'content-type': 'application/json', ...headers, ...(key === undefined ? {} : { 'idempotency-key': key }) },
    },
    answered,
  )
  request.end(body)
  return request
}

async function read(response: IncomingMessage): Promise<Seen> {
  const pieces: Uint8Array[] = []
  for await (const piece of response) pieces.push(piece)
  if (!response.complete) throw new Error('the answer was cut off')
  const { rawHeaders, statusCode = 0 } = response
  const headers = rawHeaders.flatMap((name, index): HeaderPair[] => (index % 2 === 0 ? [[name, rawHeaders[index + 1] as string]] : []))
  return seen({ status: statusCode, headers, body: Buffer.concat(pieces) })
}
