import type { Socket } from 'node:net'

/** A connection as a handler sees it to which its client must not matter. */
export interface HeldSocket {
  /** Stands in for the socket. It looks open whatever the client does, and whoever destroys it destroys the exchange. */
  readonly seeming: Socket
  isDestroyed(): boolean
  /** The exchange is over: from now on it is what it seems. */
  letGo(): void
  /** Tells those who waited for the end of the connection. */
  tellClosed(): void
}

/** What would tell a handler that its client has gone. */
const hidden = new Set<unknown>(['close', 'end', 'error', 'finish'])
const adding = new Set<PropertyKey>(['on', 'once', 'addListener', 'prependListener', 'prependOnceListener'])
const removing = new Set<PropertyKey>(['off', 'removeListener'])
const destroying = new Set<PropertyKey>(['destroy', 'destroySoon', 'resetAndDestroy'])

/**
 * Where on-finished keeps its listeners. It looks at the socket for the first of them only, so those of middleware behind us would be told
 * with those in front of us: each side gets a list of its own.
 */
export const onFinishedList = '__onFinished'

type Listener = (...args: unknown[]) => void

/**
 * Body parsers and on-finished ask the socket whether anybody is still there, and a framework that cannot answer any more destroys it.
 * The first must not stop work that has begun; the second is the handler's own word, and must not be lost.
 */
export function holdSocket(socket: Socket, destroy: (error?: Error) => void): HeldSocket {
  let waiting: { event: string; listener: Listener }[] = []
  let held = true

  const seeming: Socket = new Proxy(socket, {
    get(target, name) {
      if (held && (name === 'readable' || name === 'writable')) return true
      if (held && name === 'destroyed') return false
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      if (held && destroying.has(name)) return destroyAll
      const method = value.bind(target)
      if (adding.has(name)) return (event: string, listener: Listener) => listen(event, listener, method)
      if (removing.has(name)) return (event: string, listener: Listener) => unlisten(event, listener, method)
      return method
    },
    set: (target, name, value) => Reflect.set(target, name, value, target),
  })
  return {
    seeming,
    isDestroyed: () => socket.destroyed,
    letGo() {
      held = false
    },
    tellClosed() {
      const listeners = waiting.filter(({ event }) => event === 'close')
      waiting = []
      for (const { listener } of listeners) listener.call(socket, false)
    },
  }

  function destroyAll(error?: Error): Socket {
    destroy(error)
    return seeming
  }

  function listen(event: string, listener: Listener, add: typeof socket.on): Socket {
    if (held && hidden.has(event)) waiting.push({ event, listener })
    else add(event, listener)
    return seeming
  }

  function unlisten(event: string, listener: Listener, remove: typeof socket.off): Socket {
    waiting = waiting.filter((other) => other.event !== event || other.listener !== listener)
    remove(event, listener)
    return seeming
  }
}
