import type { IncomingMessage } from 'node:http'
import { Overrides } from './overrides.js'

/**
 * Keeps a request readable after its client has gone. Otherwise Node would destroy it, and a body parser behind us would find no body:
 * the handler would run on nothing. Returns the way back.
 */
export function holdRequest(request: IncomingMessage): () => void {
  const overrides = new Overrides(request)
  const { socket } = request
  let destroyed: { error?: Error | undefined } | undefined
  overrides.method('destroy', (error?: Error) => {
    destroyed = { error }
    return request
  })
  // Body parsers ask the socket whether there is anything left to read.
  const hideEnd = () => overrides.value('socket', () => readableStill)
  const readableStill = new Proxy(socket, {
    get: (target, name) => (name === 'readable' ? true : Reflect.get(target, name, target)),
  })
  socket.once('close', hideEnd)
  return () => {
    socket.off('close', hideEnd)
    overrides.remove()
    if (destroyed) request.destroy(destroyed.error)
  }
}
