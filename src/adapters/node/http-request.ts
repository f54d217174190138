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
  /** The body, where it had to be read before this. */
  readonly body?: HttpBody | undefined
}

/** `whenWhole` is called when all bytes of the body have been read. */
export function httpRequest<Native>(
  { native, request, url = request.url ?? '/', parser, body: given }: NodeRequest<Native>,
  reading: BodyReading,
  whenWhole?: () => void,
): HttpRequest<Native> {
  const queryAt = url.indexOf('?')
  return {
    native,
    method: request.method ?? 'GET',
    path: queryAt === -1 ? url : url.slice(0, queryAt),
    query: queryAt === -1 ? '' : url.slice(queryAt + 1),
    headerLines: (name) => linesOf(request, name.toLowerCase()),
    async body() {
      const body = given ?? (await readBody(request, reading, parser))
      if ('bytes' in body) whenWhole?.()
      return body
    },
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
