import type { IncomingMessage, ServerResponse } from 'node:http'
import { breakOff } from './http-versions.js'

export type ErrorHandler = (error: unknown, request: IncomingMessage, response: ServerResponse) => unknown

/** A listener that does not reject: `node:http` would not hear of it, and the process would end for one bad request. */
export function guarded(onError: ErrorHandler = answerAndPrint, listener: (request: IncomingMessage, response: ServerResponse) => unknown) {
  return async function guardedListener(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await listener(request, response)
    } catch (error) {
      try {
        await onError(error, request, response)
      } catch (another) {
        answerAndPrint(another, request, response)
      }
    }
  }
}

function answerAndPrint(error: unknown, _request: IncomingMessage, response: ServerResponse): void {
  console.error(error)
  if (response.writableEnded) return
  if (response.headersSent) {
    breakOff(response)
    return
  }
  for (const name of response.getHeaderNames()) response.removeHeader(name)
  response.writeHead(500).end()
}
