import type { ArrivingBody } from '../core/fingerprint/arriving-body.js'

/** A request, as every framework can give it. */
export interface HttpRequest<Native = unknown> {
  readonly method: string
  /** As the client sent it, without the query. */
  readonly path: string
  /** The raw query string, without its question mark. */
  readonly query: string
  /** The field lines of that name, each as it came: two lines are two items. Names are matched without regard to case. */
  headerLines(name: string): readonly string[]
  /** The whole body, still there for the handler; no bytes if there is none. Asked for at most once. */
  body(): HttpBody | Promise<HttpBody>
  /** What the framework calls a request: what the functions among the options are given. */
  readonly native: Native
}

export type HttpBody =
  /** As they came. `arrived`: they were hashed on the way, and are put together when `bytes` is asked for. */
  | { readonly bytes: Uint8Array; readonly arrived?: ArrivingBody }
  /** A body parser threw the bytes away; this is what it made of them. */
  | { readonly parsed: unknown }
  /** It was over the limit, or the client went away in the middle of it. Nothing has run. */
  | { readonly failed: 'too_large' | 'incomplete' }

/** How a body is read. */
export interface BodyReading {
  /** A larger one is refused. */
  readonly maxBodyBytes: number
  /** For a body of this media type that can be hashed while it arrives. Absent or undefined: it is hashed when it is whole. */
  arriving?(mediaType: string): ArrivingBody | undefined
}

export function mediaTypeOf(request: HttpRequest): string {
  return request.headerLines('content-type')[0] ?? ''
}

/** The same request, whose body may be asked for as often as one likes. */
export function rereadable<Native>(request: HttpRequest<Native>): HttpRequest<Native> {
  const { method, path, query, native } = request
  let body: HttpBody | Promise<HttpBody> | undefined
  return {
    method,
    path,
    query,
    native,
    headerLines: (name) => request.headerLines(name),
    body() {
      body ??= request.body()
      return body
    },
  }
}
