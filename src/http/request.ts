import type { ArrivingBody } from '../core/fingerprint/arriving-body.js'

/** A request, independent of the framework. */
export interface HttpRequest<Native = unknown> {
  readonly method: string
  /** As the client sent it, without the query. */
  readonly path: string
  /** The raw query string, without its question mark. */
  readonly query: string
  /** The field lines of that name, unmodified: two lines are two items. Names are case-insensitive. */
  headerLines(name: string): readonly string[]
  /** The whole body, still available to the handler; no bytes if there is none. Called at most once. */
  body(): HttpBody | Promise<HttpBody>
  /** The framework's request, passed to the functions among the options. */
  readonly native: Native
}

export type HttpBody =
  /** The raw bytes. `arrived`: hashed on arrival, and concatenated when `bytes` is read. */
  | { readonly bytes: Uint8Array; readonly arrived?: ArrivingBody }
  /** A body parser discarded the bytes; this is its result. */
  | { readonly parsed: unknown }
  /** Over the limit, or the client disconnected. Nothing has run. */
  | { readonly failed: 'too_large' | 'incomplete' }

/** How a body is read. */
export interface BodyReading {
  /** Larger bodies are refused. */
  readonly maxBodyBytes: number
  /** A hash for a body of this media type, updated on arrival. Absent or undefined: it is hashed when complete. */
  arriving?(mediaType: string): ArrivingBody | undefined
}

export function mediaTypeOf(request: HttpRequest): string {
  return request.headerLines('content-type')[0] ?? ''
}

/** The same request, whose body may be read repeatedly. */
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
