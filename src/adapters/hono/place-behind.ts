import type { Context, Next } from 'hono'
import { isBehind } from '../fetch/exchange.js'

/**
 * Runs the middleware behind the layer, and takes its answer. Hono keeps one answer per context, and the first one wins: once a timeout in
 * front of the layer has answered, Hono would drop the handler's answer, and a retry would run the handler again. So from then on `res` and
 * `finalized` have a second value, which only code behind the layer sees.
 */
export function placeBehind(c: Context) {
  const hono = Object.getPrototypeOf(c)
  let isAnswered = false
  let isRunning = false
  let late: Response | undefined
  const isLate = () => isAnswered && isBehind(c)

  return {
    isAnsweredInFront: () => (isRunning ? isAnswered : c.finalized),

    /** Undefined if there is no answer. */
    async answer(next: Next): Promise<Response | undefined> {
      isRunning = true
      if (c.finalized) answeredInFront()
      Object.defineProperty(c, 'res', {
        configurable: true,
        get: () => (isLate() && late) || Reflect.get(hono, 'res', c),
        set(response: Response | undefined) {
          if (!isAnswered && !isBehind(c)) answeredInFront()
          if (isLate()) late = response
          else Reflect.set(hono, 'res', response, c)
        },
      })
      try {
        await next()
        if (isAnswered) return late
        return c.finalized ? c.res : undefined
      } finally {
        isRunning = false
        Reflect.deleteProperty(c, 'res')
        if (isAnswered) Object.defineProperty(c, 'finalized', { ...finalized, writable: true, value: true })
        // What was taken must not add its headers to what comes next.
        else Object.assign(c, { res: undefined, finalized: false })
      }
    },
  }

  function answeredInFront(): void {
    isAnswered = true
    Object.defineProperty(c, 'finalized', { ...finalized, get: () => !isLate() || late !== undefined, set() {} })
  }
}

const finalized = { configurable: true, enumerable: true }
