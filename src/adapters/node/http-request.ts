import type { IncomingMessage, ServerResponse } from 'node:http'
import type { BodyReading, HttpBody, HttpRequest } from '../../http/request.js'
import type { HeldClient } from './held-client.js'
import { readBody } from './request-body.js'

/** A request below the framework. */
export interface NodeRequest<Native> {
  readonly native: Native
  readonly request: IncomingMessage
  readonly response?: ServerResponse
  /** As the client sent it, where a router has changed it. */
  readonly url?: string
  /** What has a `body` or `rawBody` that a parser left. Default: the request. */
  readonly parser?: object
  /** What has the body, where it had to be read before this. */
  readonly kept?: KeptBody | undefined
}

export interface KeptBody {
  /** Undefined if it was not read. */
  body(): HttpBody | Promise<HttpBody> | undefined
  /** Keeps it readable when its client goes. */
  readonly client?: HeldClient | undefined
}

/** `whenWhole` is called when all bytes of the body have been read. */
export function httpRequest<Native>(request: NodeRequest<Native>, reading: BodyReading, whenWhole?: () => void): HttpRequest<Native> {
  return new Incoming(request, reading, whenWhole)
}

class Incoming<Native> implements HttpRequest<Native> {
  readonly native: Native
  readonly method: string
  readonly path: string
  readonly query: string
  readonly #of: NodeRequest<Native>
  readonly #reading: BodyReading
  readonly #whenWhole: (() => void) | undefined

  constructor(of: NodeRequest<Native>, reading: BodyReading, whenWhole: (() => void) | undefined) {
    const { native, request, url = request.url ?? '/' } = of
    const queryAt = url.indexOf('?')
    this.native = native
    this.method = request.method ?? 'GET'
    this.path = queryAt === -1 ? url : url.slice(0, queryAt)
    this.query = queryAt === -1 ? '' : url.slice(queryAt + 1)
    this.#of = of
    this.#reading = reading
    this.#whenWhole = whenWhole
  }

  headerLines(name: string): string[] {
    return linesOf(this.#of.request, name.toLowerCase())
  }

  body(): HttpBody | Promise<HttpBody> {
    const { kept, request, response, parser } = this.#of
    if (response) askForBody(request, response)
    const body = kept?.body() ?? readBody(request, this.#reading, parser)
    return 'then' in body ? body.then((read) => this.#read(read)) : this.#read(body)
  }

  #read(body: HttpBody): HttpBody {
    if ('bytes' in body) this.#whenWhole?.()
    return body
  }
}

/** A server that listens to 'checkContinue' leaves it to its handler to ask for the body, and that one does not run before we have it. */
function askForBody({ headers, socket }: IncomingMessage, response: ServerResponse): void {
  if (headers.expect?.toLowerCase() !== '100-continue') return
  const { server } = socket as { server?: { listenerCount(event: string): number } }
  if (server && server.listenerCount('checkContinue') > 0) response.writeContinue()
}

/**
 * From the raw list, because Node joins two lines of most headers into one. But if `headers` says something else, a middleware or a serverless
 * adapter has put it there, and everyone else goes by it.
 */
function linesOf({ rawHeaders, headers }: IncomingMessage, name: string): string[] {
  const lines: string[] = []
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const candidate = rawHeaders[index] as string
    if (candidate.length === name.length && candidate.toLowerCase() === name) lines.push(rawHeaders[index + 1] as string)
  }
  const seen: unknown = headers[name]
  if (lines.length > 0 && seen === lines.join(', ')) return lines
  if (seen === undefined) return []
  return Array.isArray(seen) ? seen.map(String) : [String(seen)]
}
