/** A request, as every framework can give it. */
export interface HttpRequest<Native = unknown> {
  readonly method: string
  /** As the client sent it, without the query. */
  readonly path: string
  /** The raw query string, without its question mark. */
  readonly query: string
  /** The field lines of that name, each as it came: two lines are two items. Names are matched without regard to case. */
  headerLines(name: string): readonly string[]
  /** The whole body, read at most once and still there for the handler. */
  body(): Promise<HttpBody>
  /** What the framework calls a request: what the functions among the options are given. */
  readonly native: Native
}

/** The bytes as they came, or, where a body parser threw those away, what it made of them. */
export type HttpBody = { readonly bytes: Uint8Array } | { readonly parsed: unknown }

export function mediaTypeOf(request: HttpRequest): string {
  return request.headerLines('content-type')[0] ?? ''
}
