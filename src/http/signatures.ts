import type { Message } from '../phases/consumer.js'

/** A request authenticated by a signature over its bytes. */
export interface SignedRequest<Native = unknown> {
  /** The raw bytes. */
  readonly body: Uint8Array
  /** A header value; names are case-insensitive, and several lines are joined by commas. */
  header(name: string): string | undefined
  /** The framework's request. */
  readonly native: Native
}

/**
 * Verifies a request and makes a message of it. Throws or returns nothing if the signature is wrong. The `id` must be signed:
 * otherwise an old message could be replayed under a new one.
 */
export type Verify<M extends Message = Message, Native = unknown> = (
  request: SignedRequest<Native>,
) => M | undefined | Promise<M | undefined>

/** The subset of `standardwebhooks`' Webhook that we need. */
export interface StandardWebhook {
  verify(payload: string, headers: Record<string, string>): unknown
}

/**
 * Webhooks as in standardwebhooks.com. The message's id is its `webhook-id`. During a rotation of secrets, pass a Webhook for each.
 *
 * @example standardWebhooks([new Webhook(process.env.NEW_SECRET), new Webhook(process.env.OLD_SECRET)])
 */
export function standardWebhooks(webhooks: StandardWebhook | readonly StandardWebhook[]): Verify {
  return (request) => {
    const headers: Record<string, string> = {}
    for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) headers[name] = request.header(name) ?? ''
    const id = headers['webhook-id'] as string
    // The signed content is id, time and body joined by full stops: one in the id would make the parts ambiguous.
    if (id.includes('.')) throw new Error('The webhook-id has a full stop in it.')
    const payload = textOf(request.body)
    return withAny(webhooks, async (webhook) => ({ id, body: webhook.verify(payload, headers) }))
  }
}

/** The subset of stripe-node that we need. */
export interface StripeLike<Event extends { readonly id: string }> {
  readonly webhooks: { constructEventAsync(payload: string, header: string, secret: string): Promise<Event> }
}

/**
 * Stripe webhooks, verified by Stripe's library. The message's id is the event's, its body the event. During a rotation of secrets, pass both.
 *
 * @example stripeWebhooks(stripe, process.env.STRIPE_WEBHOOK_SECRET)
 */
export function stripeWebhooks<Event extends { readonly id: string }>(
  stripe: StripeLike<Event>,
  secrets: string | readonly string[],
): Verify<Message<Event>> {
  return (request) => {
    const payload = textOf(request.body)
    const signature = request.header('stripe-signature') ?? ''
    return withAny(secrets, async (secret) => {
      const event = await stripe.webhooks.constructEventAsync(payload, signature, secret)
      return { id: event.id, body: event }
    })
  }
}

/** Strict UTF-8: a decoder that replaces or drops bytes would make one text of two bodies. */
function textOf(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
}

/** The first success; if all fail, the error of the first, which is the current one. */
async function withAny<T, Result>(given: T | readonly T[], verify: (one: T) => Promise<Result>): Promise<Result> {
  const tried = await Promise.allSettled((Array.isArray(given) ? (given as readonly T[]) : [given as T]).map(verify))
  for (const result of tried) if (result.status === 'fulfilled') return result.value
  throw (tried[0] as PromiseRejectedResult | undefined)?.reason ?? new Error('There is no secret to verify with.')
}
