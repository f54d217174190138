// A charge at Stripe, through its own client. The derived key of the call is its idempotency key: a crash right after the charge sends the
// same request with the same key again, and Stripe answers with the charge that it has made.
import { isOncekeyError, type Once, reply } from 'oncekey'
import type { Connection } from 'oncekey/postgres'
import Stripe from 'stripe'

export interface Invoice {
  id: string
  cents: number
  paymentMethod: string
}

export function chargeAtStripe<Tx>(once: Once<Tx>, database: Connection<Tx>, stripe: Stripe) {
  return once.operation('invoices.charge_at_stripe', {}, async (run, input) => {
    const invoice = input as Invoice
    try {
      const intent = await run.call(
        'charged',
        async ({ key }) => {
          const { id } = await stripe.paymentIntents.create(
            {
              amount: invoice.cents,
              currency: 'eur',
              payment_method: invoice.paymentMethod,
              automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
              confirm: true,
              // Nobody is there to prove who they are: a card that asks for it is declined, and not left half-way.
              error_on_requires_action: true,
              metadata: { invoice: invoice.id },
            },
            { idempotencyKey: key },
          )
          return { id }
        },
        // A declined card is a decision, and final for this key. Of any other error nobody knows what it left behind.
        { timeout: '80s', classify: (error) => (error instanceof Stripe.errors.StripeCardError ? 'refused' : 'unknown') },
      )
      return await run.finish(async (tx) => {
        await database.within(tx).query('insert into payments (invoice, reference) values ($1, $2)', [invoice.id, intent.id])
        return reply(201, { payment: intent.id })
      })
    } catch (error) {
      if (isOncekeyError(error, 'call_refused')) return reply(402, { error: 'card_declined' })
      throw error
    }
  })
}
