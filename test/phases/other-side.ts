import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import { listen } from '../adapters/listen.js'

export interface Arrived {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

/** A server of somebody else's. It notes what arrives before it does what it is told, by default to answer 200 with JSON. */
export async function otherSide() {
  const arrived: Arrived[] = []
  const side = {
    answer: (response: ServerResponse, _request: Arrived, _number: number): unknown =>
      response.setHeader('content-type', 'application/json').end('{"ok":true}'),
  }
  const server = createServer(async (request, response) => {
    const { method = '', url: path = '', headers } = request
    const one = { method, path, headers, body: await text(request) }
    arrived.push(one)
    side.answer(response, one, arrived.length)
  })
  const { url, close } = await listen(server)
  onTestFinished(close)
  return Object.assign(side, { url, arrived, close, keys: () => arrived.map(({ headers }) => headers['idempotency-key']) })
}

/** Answers with a status and nothing else. */
export const status = (code: number) => (response: ServerResponse) => response.writeHead(code).end()
