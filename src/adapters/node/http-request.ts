import type { IncomingMessage } from 'node:http'
import type { BodyReading, HttpBody, HttpRequest } from '../../http/request.js'
import { readBody } from './request-body.js'

/** A request below the framework. */
export interface NodeRequest<Native> {
  readonly native: Native
  readonly request: IncomingMessage
  /** As the client sent it, where a router has changed it. */
  readonly url?: string
  /** What has a `body` or `rawBody` that a parser left. Default: the request. */
  readonly parser?: object
  /** What has the body, where it had to be read before this. */
  readonly kept?: KeptBody | undefined
}

export interface KeptBody {
  /** Undefined if nobody has read it. */
  body(): HttpBody | Promise<HttpBody> | undefined
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
    const { kept, request, parser } = this.#of
    const body = kept?.body() ?? readBody(request, this.#reading, parser)
    return 'then' in body ? body.then((read) => this.#read(read)) : this.#read(body)
  }

  #read(body: HttpBody): HttpBody {
    if ('bytes' in body) this.#whenWhole?.()
    return body
  }
}

/** From the raw list, because Node joins two lines of most headers into one. */
function linesOf({ rawHeaders }: IncomingMessage, name: string): string[] {
  const lines: string[] = []
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const candidate = rawHeaders[index] as string
    if (candidate.length === name.length && candidate.toLowerCase() === name) lines.push(rawHeaders[index + 1] as string)
  }
  return lines
}
