import type { HttpRequest } from '../../http/request.js'
import { type KeptBody, readBody } from './request-body.js'

/** A request of the Fetch standard, as its framework knows it. */
export interface FetchExchange<Native> {
  readonly native: Native
  readonly request: Request
  /** The headers that are sent in any case. */
  readonly baseline: Headers
  /** What somebody who has read the body already has kept of it. */
  readonly keptBody?: () => Promise<KeptBody | undefined>
  /** Keeps a runtime from stopping the work when its client has gone. */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined
}

export function httpRequest<Native>({ native, request, keptBody }: FetchExchange<Native>, maxBodyBytes: number): HttpRequest<Native> {
  const { pathname, search } = new URL(request.url)
  return {
    native,
    method: request.method,
    path: pathname,
    query: search.slice(1),
    // The standard joins lines of one name, so two keys arrive as one value with a comma: which is no key.
    headerLines(name) {
      const value = request.headers.get(name)
      return value === null ? [] : [value]
    },
    body: () => readBody(request, maxBodyBytes, keptBody),
  }
}
