import type { HttpBody, HttpRequest } from '../../src/http/request.js'
import type { HeaderPair } from '../../src/index.js'

/** What a framework would call a request: what the functions among the options are given. */
export interface Native {
  /** Who is calling, as authentication in front of the layer has found out. */
  readonly caller: string
  readonly headers: readonly HeaderPair[]
}

export interface RequestParts {
  method?: string
  url?: string
  /** The value of an `Idempotency-Key` line, with its quotes. Left out, there is no such line. */
  key?: string
  headers?: readonly HeaderPair[]
  /** Sent as JSON, unless the headers have another `Content-Type`. */
  body?: string | Uint8Array
  /** What becomes of the body on its way, if it does not arrive as it was sent. */
  arrives?: HttpBody
  caller?: string
}

/** A request as an adapter hands it to the layer. */
export function httpRequest({ method = 'POST', url = '/orders', key, body, arrives, caller = 'anyone', ...parts }: RequestParts) {
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body
  const headers: HeaderPair[] = [...(parts.headers ?? [])]
  const has = (wanted: string) => headers.some(([name]) => name.toLowerCase() === wanted)
  if (key !== undefined) headers.push(['Idempotency-Key', key])
  if (bytes && !has('content-type')) headers.push(['Content-Type', 'application/json'])
  if (bytes && !has('content-length') && !has('transfer-encoding')) headers.push(['Content-Length', String(bytes.length)])
  const [path = '/', ...query] = url.split('?')
  let asked = false
  return {
    method,
    path,
    query: query.join('?'),
    headerLines: (name) => headers.filter(([each]) => each.toLowerCase() === name.toLowerCase()).map(([, value]) => value),
    async body() {
      // Adapters read a stream, and there is only one of it.
      if (asked) throw new Error('the body was asked for twice')
      asked = true
      return arrives ?? { bytes: bytes ?? new Uint8Array() }
    },
    native: { caller, headers },
  } satisfies HttpRequest<Native>
}
