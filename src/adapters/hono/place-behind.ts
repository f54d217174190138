// biome-ignore lint/style/noRestrictedImports: it is there on every runtime that has the rest of the package.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Context, Next } from 'hono'

/**
 * A place for the answer of those behind the layer. Hono has one for all, and the first answer that comes there wins: if a timeout in front
 * of the layer answers, Hono drops what the handler returns after that. Its work would be done and its answer lost, so a retry would do it
 * again. Here it gets through, and who was first in front still has the last word to this client.
 */
export interface PlaceBehind {
  /** Runs those behind, and takes their answer; undefined if they gave none. */
  answer(next: Next): Promise<Response | undefined>
  /** Whether somebody in front has answered the client meanwhile. */
  answeredInFront(): boolean
}

const behind = new AsyncLocalStorage<Context>()

export function placeBehind(c: Context): PlaceBehind {
  const hono = Object.getPrototypeOf(c)
  let running = false
  let inFront = false
  let finalized = false
  let late: Response | undefined
  const isBehind = () => behind.getStore() === c
  const places: PropertyDescriptorMap = {
    finalized: {
      configurable: true,
      enumerable: true,
      get: () => (inFront && isBehind() ? late !== undefined : finalized),
      set(value: boolean) {
        finalized = value
        if (!isBehind()) inFront = true
      },
    },
    res: {
      configurable: true,
      get: () => (inFront && isBehind() && late ? late : Reflect.get(hono, 'res', c)),
      set(response: Response | undefined) {
        if (inFront && isBehind()) late = response
        else Reflect.set(hono, 'res', response, c)
      },
    },
  }
  return { answer, answeredInFront: () => (running ? inFront : c.finalized) }

  async function answer(next: Next): Promise<Response | undefined> {
    inFront = c.finalized
    finalized = c.finalized
    running = true
    Object.defineProperties(c, places)
    try {
      await behind.run(c, next)
      if (inFront) return late
      return finalized ? c.res : undefined
    } finally {
      running = false
      Reflect.deleteProperty(c, 'res')
      Object.defineProperty(c, 'finalized', { configurable: true, enumerable: true, writable: true, value: true })
      if (!inFront) {
        // What was taken is gone from there: it must not add its headers to what comes next.
        c.res = undefined
        c.finalized = false
      }
    }
  }
}
