// A charge at Adyen, by plain HTTP: run.fetch sends the derived key in the header that Adyen looks at. A decline is a 200 there, and so a
// result like any other.
import { type Fetched, type Once, reply } from 'oncekey'
import type { Connection } from 'oncekey/postgres'
import type { Invoice } from './charge-at-stripe.js'

export interface Adyen {
  /** Such as https://checkout-test.adyen.com */
  url: string
  apiKey: string
  merchantAccount: string
}

type Payment = Fetched<{ pspReference: string; resultCode: string }>

export function chargeAtAdyen<Tx>(once: Once<Tx>, database: Connection<Tx>, { url, apiKey, merchantAccount }: Adyen) {
  return once.operation('invoices.charge_at_adyen', {}, async (run, input) => {
    const invoice = input as Invoice
    const { body: payment } = await run.fetch<Payment>(
      'charged',
      `${url}/v71/payments`,
      {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-api-key': apiKey },
        body: JSON.stringify({
          merchantAccount,
          reference: invoice.id,
          amount: { value: invoice.cents, currency: 'EUR' },
          paymentMethod: { type: 'scheme', storedPaymentMethodId: invoice.paymentMethod },
        }),
      },
      { header: 'idempotency-key', timeout: '80s' },
    )
    if (payment.resultCode === 'Refused') return reply(402, { error: 'card_declined' })
    // Pending, Received and their kind may still be paid: Adyen's webhook tells.
    if (payment.resultCode !== 'Authorised') return reply(202, { payment: payment.pspReference, state: payment.resultCode })
    return run.finish(async (tx) => {
      await database.within(tx).query('insert into payments (invoice, reference) values ($1, $2)', [invoice.id, payment.pspReference])
      return reply(201, { payment: payment.pspReference })
    })
  })
}
