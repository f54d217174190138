// What Stripe tells afterwards: each event is taken in once, however often it is delivered, in one transaction with what it changes.
import type { Message, Once } from 'oncekey'
import { stripeWebhooks, webhook } from 'oncekey/node'
import type { Connection } from 'oncekey/postgres'
import type Stripe from 'stripe'

export function stripeEvents<Tx>(once: Once<Tx>, database: Connection<Tx>, stripe: Stripe, secrets: string[]) {
  const onEvent = once.consumer('stripe.events', { tenant: 'single' }, async (tx, { body: event }: Message<Stripe.Event>) => {
    // Not charge.refunded: that one tells the sum of all refunds so far, and must not be added up.
    if (event.type !== 'refund.created') return
    const { payment_intent, amount } = event.data.object
    await database.within(tx).query('update payments set refunded = refunded + $2 where reference = $1', [String(payment_intent), amount])
  })
  return webhook(onEvent, {
    verify: stripeWebhooks(stripe, secrets),
    onRefused: (error) => console.warn('a webhook was refused:', String(error)),
  })
}
