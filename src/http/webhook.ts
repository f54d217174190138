import type { Answer } from '../core/answer.js'
import { OncekeyError } from '../core/errors.js'
import type { Outcome } from '../engine/outcome.js'
import type { Message } from '../phases/consumer.js'
import { refusalOf } from './admit.js'
import { checkFunction, type HttpOptions, needsFunction, resolveHttpOptions } from './options.js'
import { problemReply, replyTo } from './replies.js'
import type { HttpRequest } from './request.js'
import { withRequestId } from './request-ids.js'
import { hasRun } from './run-of.js'
import { layersNested, type Service } from './serve.js'
import type { Verify } from './signatures.js'

export type { Message } from '../phases/consumer.js'

/** What can receive a webhook: a consumer. */
export interface Receiver<M extends Message> {
  readonly name: string
  readonly handle: (message: M) => Promise<Outcome<Answer>>
}

export interface WebhookOptions<Native, M extends Message = Message> extends Pick<HttpOptions<Native>, 'profile' | 'problemBase'> {
  /**
   * Makes a message of the request, if its signature is right: `standardWebhooks(…)`, `stripeWebhooks(…)`, or your own function. If it
   * throws or returns nothing, the sender gets 400, and nothing else happens.
   */
  verify: Verify<M, Native>
  /** Called with the reason of a refusal: a wrong secret shows here first. The sender does not get it. Default: none. */
  onRefused?: (error: unknown, request: Native) => unknown
  /**
   * Larger request bodies are refused with 413. Too low: legitimate messages are refused. Too high: the body is read before its sender is
   * verified, so strangers can fill the memory. Default 1 MiB.
   */
  maxBodyBytes?: number
}

/** Receives webhooks for a consumer: verifies the signature over the raw bytes, then does the work, once. Framework-free. */
export function webhookOf<Native, M extends Message>(receiver: Receiver<M>, options: WebhookOptions<Native, M>): Service<Native> {
  if (typeof receiver?.handle !== 'function') {
    throw new OncekeyError('option_invalid', 'webhook() needs a consumer: what once.consumer() made.')
  }
  const { verify, onRefused } = options ?? {}
  needsFunction('verify', verify, 'standardWebhooks(…), stripeWebhooks(…) or a function of the signed request that makes a message of it')
  checkFunction('onRefused', onRefused)
  const given = { ...options, maxBodyBytes: options.maxBodyBytes ?? 1024 * 1024, tenant: 'single' } as const
  const settings = resolveHttpOptions<Native>(given, () => false)
  const { maxBodyBytes, profile } = settings
  return { maxBodyBytes, answer }

  async function answer(request: HttpRequest<Native>): Promise<Answer> {
    if (hasRun(request.native)) throw layersNested(receiver.name, 'webhook()')
    const body = await request.body()
    if ('failed' in body) return problemReply(settings, { code: body.failed === 'too_large' ? 'body_too_large' : 'body_incomplete' })
    if ('parsed' in body) throw bytesGone()
    const message = await verified(request, body.bytes)
    if (!message) return problemReply(settings, { code: 'signature_invalid' })
    try {
      const outcome = await receiver.handle(message)
      if (outcome.kind !== 'executed') return replyTo(settings, acknowledging(outcome))
      return profile.requestIds ? withRequestId(outcome.answer, outcome.incarnation) : outcome.answer
    } catch (error) {
      const refusal = refusalOf(settings, error)
      if (refusal) return refusal
      throw error
    }
  }

  async function verified(request: HttpRequest<Native>, body: Uint8Array): Promise<M | undefined> {
    const { native } = request
    const header = (name: string) => request.headerLines(name).join(', ') || undefined
    let error: unknown
    try {
      const message = await verify({ native, header, body })
      if (message) return message
    } catch (thrown) {
      error = thrown
    }
    await onRefused?.(error ?? new Error('verify returned no message.'), native)
    return undefined
  }
}

/** The message is processed, whatever was stored of the answer: a 410 would tell the sender that the endpoint is gone. */
function acknowledging<Given extends Exclude<Outcome<Answer>, { kind: 'executed' }>>(outcome: Given): Given {
  if (outcome.kind !== 'replayed' || outcome.answer.omittedBytes === undefined) return outcome
  return { ...outcome, answer: { status: outcome.answer.status, headers: [], body: new Uint8Array() } }
}

const bytesGone = () =>
  new OncekeyError(
    'raw_body_gone',
    'A body parser ran before webhook() and threw the bytes away that the sender signed. Mount webhook() before the parser, or let the ' +
      'parser keep them as `rawBody`.',
  )
