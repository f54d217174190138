import type { Idempotency } from '../../http/idempotency.js'
import type { HttpBody, HttpRequest } from '../../http/request.js'
import { rememberRun } from '../../http/run-of.js'
import type { Service } from '../../http/serve.js'
import { type CapturedResponse, captureResponse, responseOf } from './captured-response.js'

/** A request of the Fetch standard, as its framework knows it. */
export interface FetchExchange<Native> {
  readonly native: Native
  readonly request: Request
  /** The headers that are sent in any case. */
  readonly baseline: Headers
  /** The bytes of the body where somebody has read them already and kept them. */
  readonly readBefore?: () => Promise<Uint8Array | undefined>
}

const protectedRequests = new WeakSet<Request>()

/** The response to a request: the handler's, stored before its last byte leaves, or what the layer answers instead. */
export async function exchange<Native, Tx>(
  layer: Idempotency<Native, Tx>,
  given: FetchExchange<Native>,
  handler: () => Promise<Response>,
): Promise<Response> {
  const { native, request, baseline } = given
  // Mounted twice: the outer one protects it already.
  if (protectedRequests.has(request)) return handler()
  protectedRequests.add(request)

  return new Promise<Response>((resolve, reject) => {
    let captured: CapturedResponse | undefined
    layer
      .handle(httpRequest(given, layer.maxBodyBytes), async (run) => {
        rememberRun(request, run)
        if (typeof native === 'object' && native !== null) rememberRun(native, run)
        captured = await captureResponse(await handler(), baseline, layer.maxAnswerBytes)
        if (captured.flow) resolve(captured.flow.response)
        return captured.answer
      })
      .then(async (handled) => {
        captured?.flow?.end(handled.kind === 'own')
        if (handled.kind === 'pass') return resolve(await handler())
        if (handled.kind === 'own' && captured) return resolve(captured.deliver(handled.headers))
        if (handled.kind === 'answer') resolve(responseOf(handled.answer, baseline))
      })
      .catch((error: unknown) => {
        captured?.flow?.end(false)
        reject(error)
      })
  })
}

/** Runs the operation. What its body throws comes out of here. */
export async function respond<Native>(service: Service<Native>, given: FetchExchange<Native>): Promise<Response> {
  return responseOf(await service.answer(httpRequest(given, service.maxBodyBytes)), given.baseline)
}

function httpRequest<Native>({ native, request, readBefore }: FetchExchange<Native>, maxBodyBytes: number): HttpRequest<Native> {
  const { pathname, search } = new URL(request.url)
  return {
    native,
    method: request.method,
    path: pathname,
    query: search.slice(1),
    // The standard joins lines of one name, so two keys arrive as one value with a comma: which is no key.
    headerLines: (name) => {
      const value = request.headers.get(name)
      return value === null ? [] : [value]
    },
    body: () => readBody(request, maxBodyBytes, readBefore),
  }
}

/** Reads a copy, so that the handler finds the body where it was. */
async function readBody(request: Request, maxBytes: number, readBefore?: () => Promise<Uint8Array | undefined>): Promise<HttpBody> {
  if (request.bodyUsed) {
    const bytes = await readBefore?.()
    return bytes ? { bytes } : { parsed: undefined }
  }
  const reader = request.clone().body?.getReader()
  const pieces: Uint8Array[] = []
  let size = 0
  try {
    while (reader) {
      const { done, value } = await reader.read()
      if (done) break
      size += value.length
      if (size > maxBytes) return { failed: 'too_large' }
      pieces.push(value)
    }
  } catch {
    return { failed: 'incomplete' }
  }
  return { bytes: Buffer.concat(pieces) }
}
