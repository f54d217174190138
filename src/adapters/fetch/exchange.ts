// biome-ignore lint/style/noRestrictedImports: it is there on every runtime that has the rest of the package.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Idempotency } from '../../http/idempotency.js'
import type { HttpRequest } from '../../http/request.js'
import { rememberAttempt } from '../../http/run-of.js'
import type { Service } from '../../http/serve.js'
import { type KeptBody, readBody } from './request-body.js'
import { type CapturedResponse, captureResponse, responseOf } from './response.js'

/** A request of the Fetch standard, as its framework knows it. */
export interface FetchExchange<Native> {
  readonly native: Native
  readonly request: Request
  /** The headers that are sent in any case. */
  baseline?(): Headers | undefined
  /** What an earlier reader has kept of the body. */
  keptBody?(): Promise<KeptBody | undefined>
  /** Keeps a runtime from stopping the work when its client has gone. */
  readonly waitUntil?: ((work: Promise<unknown>) => void) | undefined
}

interface Protected {
  readonly names: readonly unknown[]
  readonly outer: Protected | undefined
}

/** What the calling code is behind. A set of requests would not do: the same one may be handed in twice at once. */
const behind = new AsyncLocalStorage<Protected>()

/** Whether the caller is a handler behind a layer that protects the request of that name. */
export function isBehind(name: unknown): boolean {
  for (let layer = behind.getStore(); layer; layer = layer.outer) if (layer.names.includes(name)) return true
  return false
}

/**
 * The response to a request: the handler's, stored before its last byte leaves, or what the layer answers instead. `'pass'`: it is not
 * protected, and the handler has not run.
 */
export async function exchange<Native, Tx>(
  layer: Idempotency<Native, Tx>,
  given: FetchExchange<Native>,
  handler: () => Promise<Response | undefined>,
): Promise<Response | 'pass'> {
  const { native, request } = given
  // Middleware may replace the request; what the framework calls one stays the same.
  const names = new Set<unknown>([request, native])
  // Mounted twice: the outer one protects it already.
  for (const name of names) if (isBehind(name)) return 'pass'

  const begun = await layer.begin(httpRequest(given, layer.maxBodyBytes))
  if (begun.kind === 'pass') return 'pass'
  const baseline = given.baseline?.()
  if (begun.kind === 'answer') return responseOf(begun.answer, baseline)
  const { attempt } = begun
  return new Promise((resolve, reject) => {
    let captured: CapturedResponse | undefined
    const work = attempt
      .settle(async () => {
        for (const name of names) rememberAttempt(name as object, attempt.attempt)
        captured = await captureResponse(await behind.run({ names: [...names], outer: behind.getStore() }, handler), {
          baseline,
          maxBytes: layer.maxAnswerBytes,
          onLost: (listener) => attempt.attempt.holding.onAbort(listener),
          clientGone: () => request.signal,
        })
        if (captured.flow) resolve(captured.flow.response)
        return captured.answer
      })
      .then((leaving) => {
        captured?.flow?.end(leaving.kind === 'own')
        if (leaving.kind === 'answer') resolve(responseOf(leaving.answer, baseline))
        else if (captured) resolve(captured.deliver(leaving.headers))
      })
      .catch((error: unknown) => {
        captured?.flow?.end(false)
        reject(error)
      })
    given.waitUntil?.(work)
  })
}

/** Runs the operation. What its body throws comes out of here. */
export async function respond<Native>(service: Service<Native>, given: FetchExchange<Native>): Promise<Response> {
  const answer = service.answer(httpRequest(given, service.maxBodyBytes))
  given.waitUntil?.(answer.catch(() => {}))
  return responseOf(await answer, given.baseline?.())
}

function httpRequest<Native>({ native, request, keptBody }: FetchExchange<Native>, maxBodyBytes: number): HttpRequest<Native> {
  const { pathname, search } = new URL(request.url)
  return {
    native,
    method: request.method,
    path: pathname,
    query: search.slice(1),
    // The standard joins lines of one name, so two keys arrive as one value with a comma, which is no key.
    headerLines(name) {
      const value = request.headers.get(name)
      return value === null ? [] : [value]
    },
    body: () => readBody(request, maxBodyBytes, keptBody),
  }
}
