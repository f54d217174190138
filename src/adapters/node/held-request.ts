import type { IncomingMessage, ServerResponse } from 'node:http'
import { type HeldSocket, onFinishedList } from './held-socket.js'
import { Overrides } from './overrides.js'

/**
 * Keeps a request readable after its client has gone. Otherwise Node would destroy it, and a body parser behind us would find no body:
 * the handler would run on nothing. Returns the way back.
 */
export function holdRequest(request: IncomingMessage, response: ServerResponse, { seeming, isDestroyed }: HeldSocket): () => void {
  const overrides = new Overrides(request)
  let destroyed: { error?: Error | undefined } | undefined
  overrides.method('destroy', (error?: Error) => {
    // It was read to its end, and streams destroy themselves there: whoever waits for that must not wait for us.
    if (request.readableEnded) return overrides.original('destroy').call(request, error)
    if (isDestroyed()) destroyed = { error }
    // Not the client but the handler did it, and on Node that is the end of the connection.
    else response.destroy(error)
    return request
  })
  overrides.method('emit', (event: string, ...details: unknown[]) => {
    overrides.hideChanges()
    // HTTP/2 tells it without destroying anything.
    if ((event === 'close' || event === 'aborted') && !request.readableEnded) {
      destroyed ??= {}
      return false
    }
    return overrides.original('emit').call(request, event, ...details)
  })
  overrides.value('socket', seeming)
  overrides.property(onFinishedList, null)
  return () => {
    overrides.remove()
    if (destroyed) request.destroy(destroyed.error)
  }
}
