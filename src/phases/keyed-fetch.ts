import { OncekeyError } from '../core/errors.js'

/** What fetch takes, in the words that we need. */
type Input = Parameters<typeof fetch>[0]
type Init = NonNullable<Parameters<typeof fetch>[1]>

export interface KeyedFetch {
  /** Of the call that the requests are part of. */
  readonly name: string
  readonly key: string
  readonly signal: AbortSignal
  /** Where the other side looks for the key. */
  readonly header?: string
}

export const idempotencyKey = 'Idempotency-Key'

/**
 * A fetch that sends the key of a call along with whatever may change something. It never takes the key to another address: such
 * requests follow no redirect, and a second one of the same call must go where the first one went.
 */
export function keyedFetch({ name, key, signal, header = idempotencyKey }: KeyedFetch): typeof fetch {
  let target: string | undefined
  return async function fetchWithKey(input: Input, init: Init = {}): Promise<Response> {
    const { safe, headers, redirect, address, shown, own } = requestOf(input, init, header)
    const either = { ...init, signal: own ? AbortSignal.any([signal, own]) : signal }
    if (safe) return fetch(input, either)
    target ??= address
    if (address !== target) throw secondTarget(name, shown)
    headers.set(header, key)
    return fetch(input, { ...either, headers, redirect })
  }
}

/** As this module found it. A library that replaces it later may send a request again, as the options of no request show. */
const nodesFetch = globalThis.fetch

/**
 * Whether a request is sent at most once: true with Node's own fetch and dispatcher. Any other one may retry, and reports only how its last attempt
 * failed.
 */
export function goesOutOnce(init: Init): boolean {
  if (globalThis.fetch !== nodesFetch) return false
  if ('dispatcher' in init && init.dispatcher) return false
  return globalDispatchers.every((name) => {
    const dispatcher = (globalThis as Record<symbol, unknown>)[name]
    // Undefined: Node makes its own with the first request.
    return dispatcher === undefined || isPlain(dispatcher as Dispatcher)
  })
}

interface Dispatcher {
  readonly dispatch?: unknown
  readonly constructor?: { readonly name?: unknown }
}

/** Where undici, which is Node's fetch, keeps what all requests go through, one for each version of its interface. */
const globalDispatchers = [1, 2].map((version) => Symbol.for(`undici.globalDispatcher.${version}`))

/** A dispatcher made by `agent.compose(…)` differs from the agent only in `dispatch`. `Dispatcher1Wrapper` wraps the agent of the newer interface. */
function isPlain(dispatcher: Dispatcher): boolean {
  const name = dispatcher.constructor?.name
  if (name === 'Dispatcher1Wrapper') return true
  return name === 'Agent' && dispatcher.dispatch === Object.getPrototypeOf(dispatcher).dispatch
}

interface Planned {
  readonly safe: boolean
  readonly headers: Headers
  readonly redirect: 'manual' | 'error'
  readonly address: string
  /** For people: a query may have secrets in it. */
  readonly shown: string
  /** The caller's signal. */
  readonly own: AbortSignal | null | undefined
}

/** What a request would be. Throws for one that brings a key of its own, before anything is sent. */
export function requestOf(input: Input, init: Init, header: string): Planned {
  const given: Partial<Request> = typeof input === 'object' && 'url' in input ? input : {}
  const method = (init.method ?? given.method ?? 'GET').toUpperCase()
  const { origin, pathname, href } = new URL(given.url ?? String(input))
  const headers = new Headers(init.headers ?? given.headers)
  const safe = safeMethods.has(method)
  if (!safe && headers.has(header)) {
    throw new OncekeyError(
      'option_invalid',
      `The request brings a ${header} of its own. Leave it out: the call sends its derived key, which is the same in every attempt.`,
    )
  }
  return {
    safe,
    headers,
    // Followed, the key would go wherever the other side points.
    redirect: (init.redirect ?? given.redirect) === 'error' ? 'error' : 'manual',
    address: `${method} ${href}`,
    shown: `${method} ${origin}${pathname}`,
    own: init.signal ?? given.signal,
  }
}

/** Safe by RFC 9110: they ask, and change nothing. */
const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

const secondTarget = (name: string, shown: string) =>
  new OncekeyError(
    'option_invalid',
    `The call '${name}' has sent a request, and now wants to send another one, ${shown}, with the same key. One call is one ` +
      'change: make a call of its own for it.',
  )
