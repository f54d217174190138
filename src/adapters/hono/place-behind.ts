import type { Context, Next } from 'hono'
import { isBehind } from '../fetch/exchange.js'

/**
 * Runs the middleware behind the layer, and takes its answer. Hono keeps one answer per context, and the first one wins: once a timeout in
 * front of the layer has answered, Hono would drop the handler's answer, and a retry would run the handler again. So from then on, `res` and
 * `finalized` have a second value, which only code behind the layer sees.
 */
export class PlaceBehind {
  readonly #context: Context
  #isAnsweredInFront = false
  #late: Response | undefined
  #isRunning = false

  constructor(context: Context) {
    this.#context = context
  }

  get isAnsweredInFront(): boolean {
    return this.#isRunning ? this.#isAnsweredInFront : this.#context.finalized
  }

  /** Undefined if there is no answer. */
  async answer(next: Next): Promise<Response | undefined> {
    const c = this.#context
    const hono = Object.getPrototypeOf(c)
    if (c.finalized) this.#split()
    this.#isRunning = true
    Object.defineProperty(c, 'res', {
      configurable: true,
      get: () => (this.#isLate && this.#late) || Reflect.get(hono, 'res', c),
      set: (response: Response | undefined) => {
        if (!this.#isAnsweredInFront && !isBehind(c)) this.#split()
        if (this.#isLate) this.#late = response
        else Reflect.set(hono, 'res', response, c)
      },
    })
    try {
      await next()
      if (this.#isAnsweredInFront) return this.#late
      return c.finalized ? c.res : undefined
    } finally {
      this.#isRunning = false
      Reflect.deleteProperty(c, 'res')
      if (this.#isAnsweredInFront) Object.defineProperty(c, 'finalized', { ...finalized, writable: true, value: true })
      else replaceResponse(c, undefined)
    }
  }

  get #isLate(): boolean {
    return this.#isAnsweredInFront && isBehind(this.#context)
  }

  #split(): void {
    this.#isAnsweredInFront = true
    const get = () => !this.#isLate || this.#late !== undefined
    Object.defineProperty(this.#context, 'finalized', { ...finalized, get, set() {} })
  }
}

const finalized = { configurable: true, enumerable: true }

/** Set over another one, Hono would add the headers of that to it. */
export function replaceResponse(c: Context, response: Response | undefined): void {
  c.res = undefined
  if (response) c.res = response
  else c.finalized = false
}
