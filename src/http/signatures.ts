import type { Message } from '../phases/consumer.js'

/** A request that says who sent it by a signature over its bytes. */
export interface SignedRequest<Native = unknown> {
  /** As it came, byte for byte. */
  readonly body: Uint8Array
  /** The value of a header, in any case of its name; several lines are joined by commas. */
  header(name: string): string | undefined
  /** What the framework calls a request. */
  readonly native: Native
}

/**
 * Makes a message of a request whose signature is right. Throws, or returns nothing, for any other. The `id` must be part of what is
 * signed: whoever could choose it could have an old message done again.
 */
export type Verify<M extends Message = Message, Native = unknown> = (
  request: SignedRequest<Native>,
) => M | undefined | Promise<M | undefined>

/** The part of the Webhook of `standardwebhooks` that we need. */
export interface StandardWebhook {
  verify(payload: string, headers: Record<string, string>): unknown
}

/**
 * Webhooks as standardwebhooks.com has them. The message's id is its `webhook-id`. While a secret is being replaced, pass a Webhook for each.
 *
 * @example standardWebhooks([new Webhook(process.env.NEW_SECRET), new Webhook(process.env.OLD_SECRET)])
 */
export function standardWebhooks(webhooks: StandardWebhook | readonly StandardWebhook[]): Verify {
  return (request) => {
    const headers: Record<string, string> = {}
    for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) headers[name] = request.header(name) ?? ''
    const id = headers['webhook-id'] as string
    // What is signed is id, time and body with full stops between them: with one in the id, the borders could be moved.
    if (id.includes('.')) throw new Error('The webhook-id has a full stop in it.')
    const payload = textOf(request.body)
    return withAny(webhooks, async (webhook) => ({ id, body: webhook.verify(payload, headers) }))
  }
}

/** The part of stripe-node that we need. */
export interface StripeLike<Event extends { readonly id: string }> {
  readonly webhooks: { constructEventAsync(payload: string, header: string, secret: string): Promise<Event> }
}

/**
 * Webhooks of Stripe, by its own library. The message's id is the event's, its body the event. While a secret is being rolled, pass both.
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

/** The text that these bytes are, and no others: a decoder that mends or drops some would take two bodies for one. */
function textOf(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
}

/** The first that takes it; if none does, the error of the first, which is the current one. */
async function withAny<T, Result>(given: T | readonly T[], verify: (one: T) => Promise<Result>): Promise<Result> {
  const tried = await Promise.allSettled((Array.isArray(given) ? (given as readonly T[]) : [given as T]).map(verify))
  for (const result of tried) if (result.status === 'fulfilled') return result.value
  throw (tried[0] as PromiseRejectedResult | undefined)?.reason ?? new Error('There is no secret to verify with.')
}
