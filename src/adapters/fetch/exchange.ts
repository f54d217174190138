import type { Idempotency } from '../../http/idempotency.js'
import { rememberAttempt } from '../../http/run-of.js'
import type { Service } from '../../http/serve.js'
import { type CapturedResponse, captureResponse, responseOf } from './captured-response.js'
import { type FetchExchange, httpRequest } from './http-request.js'

/** What is inside of a layer now. Not for ever: the same request may be handed in again, as a retry. */
const underWay = new WeakSet<object>()

/**
 * The response to a request: the handler's, stored before its last byte leaves, or what the layer answers instead. `'pass'`: it is not
 * protected, and the handler has not run.
 */
export async function exchange<Native, Tx>(
  layer: Idempotency<Native, Tx>,
  given: FetchExchange<Native>,
  handler: () => Promise<Response | undefined>,
): Promise<Response | 'pass'> {
  const { native, request, baseline } = given
  // Somebody in between may have put another request in its place; what the framework calls one stays the same.
  const names = [request, native].filter((name) => typeof name === 'object' && name !== null) as object[]
  // Mounted twice: the outer one protects it already.
  if (names.some((name) => underWay.has(name))) return 'pass'

  const begun = await layer.begin(httpRequest(given, layer.maxBodyBytes))
  if (begun.kind === 'pass') return 'pass'
  if (begun.kind === 'answer') return responseOf(begun.answer, baseline)
  const { attempt } = begun
  return new Promise((resolve, reject) => {
    let captured: CapturedResponse | undefined
    const work = attempt
      .settle(async () => {
        for (const name of names) {
          underWay.add(name)
          rememberAttempt(name, attempt.attempt)
        }
        captured = await captureResponse(await handler(), {
          baseline,
          maxBytes: layer.maxAnswerBytes,
          lost: attempt.attempt.holding.signal,
          clientGone: request.signal,
        })
        if (captured.flow) resolve(captured.flow.response)
        return captured.answer
      })
      .finally(() => {
        for (const name of names) underWay.delete(name)
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
  return responseOf(await answer, given.baseline)
}
