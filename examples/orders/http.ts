// The little of HTTP that node:http leaves to us.
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'

export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

/** Undefined where there is none, or it is not JSON. */
export async function jsonBody(request: IncomingMessage): Promise<unknown> {
  return json(request).catch(() => undefined)
}

/** Whatever comes, and whatever goes wrong with it, is one request's misfortune, and not the end of the process. */
export function answering(answer: (request: IncomingMessage, response: ServerResponse) => Promise<void>): RequestListener {
  return (request, response) =>
    void answer(request, response).catch((error: NodeJS.ErrnoException) => {
      if (response.headersSent) response.destroy()
      else if (error?.code === 'ERR_INVALID_URL') sendJson(response, 400, { error: 'not_understood' })
      else sendJson(response, 500, { error: 'something_went_wrong' })
    })
}

export function addressOf(request: IncomingMessage): URL {
  return new URL(request.url ?? '/', 'http://localhost')
}
