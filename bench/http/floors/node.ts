import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Answer } from 'oncekey'
import { type Floor, headerPairs, replayedHeader } from './floor.js'

/** For `node:http` and Express: `writeHead`, `write` and `end` of the response are saved, hold what they are given, and are called once it is stored. */
export async function nodeFloor(
  { claim, finish }: Floor,
  request: IncomingMessage,
  response: ServerResponse,
  body: Buffer,
  next: () => void,
): Promise<void> {
  const { headers, url } = request
  const key = headers['idempotency-key'] as string
  const { answer, lease } = await claim({ key, path: url as string, mediaType: headers['content-type'] as string, body })
  if (answer) {
    for (const [name, value] of answer.headers) response.setHeader(name, value)
    response.setHeader(...replayedHeader)
    response.writeHead(answer.status, { 'content-length': answer.body.length }).end(answer.body)
    return
  }
  hold(response, (held) => finish(lease, held))
  next()
}

function hold(response: ServerResponse, store: (answer: Answer) => Promise<void>): void {
  const { writeHead, write, end } = response
  const pieces: Buffer[] = []
  const keep = (piece: unknown, encoding?: unknown) => {
    pieces.push(
      typeof piece === 'string'
        ? Buffer.from(piece, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8')
        : (piece as Buffer),
    )
  }
  const held = {
    writeHead(status: number, headers: Record<string, string> = {}) {
      response.statusCode = status
      for (const name in headers) response.setHeader(name, headers[name] as string)
      return response
    },
    write(piece: unknown, encoding?: unknown) {
      keep(piece, encoding)
      return true
    },
    end(piece?: unknown, encoding?: unknown) {
      if (piece !== undefined && typeof piece !== 'function') keep(piece, encoding)
      const body = pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces)
      store({ status: response.statusCode, headers: headerPairs(response.getHeaders()), body }).then(
        () => {
          // The saved `end` calls `writeHead` on the response.
          Object.assign(response, { writeHead, write, end })
          response.end(body)
        },
        (error) => response.destroy(error),
      )
      return response
    },
  }
  Object.assign(response, held)
}
