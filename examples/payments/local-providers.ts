// Small servers that treat idempotency keys as Stripe and Adyen do, for trying the examples without them: a key that is known gets its first
// answer again, and with another body an error.
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

interface Answer {
  status: number
  json: unknown
}

interface Provider {
  decide(charge: { number: number; body: string }): Answer
  /** Of a key that comes with another body. */
  readonly mismatch: Answer
}

/** `declined` as the payment method is declined. */
export const localStripe: Provider = {
  decide({ number, body }) {
    if (new URLSearchParams(body).get('payment_method') === 'declined') {
      return { status: 402, json: { error: { type: 'card_error', code: 'card_declined', message: 'Your card was declined.' } } }
    }
    return { status: 200, json: { id: `pi_${number}`, object: 'payment_intent', status: 'succeeded' } }
  },
  mismatch: { status: 400, json: { error: { type: 'idempotency_error', message: 'Keys can only be used with the same parameters.' } } },
}

export const localAdyen: Provider = {
  decide({ number, body }) {
    const { paymentMethod } = JSON.parse(body) as { paymentMethod: { storedPaymentMethodId: string } }
    const resultCode = paymentMethod.storedPaymentMethodId === 'declined' ? 'Refused' : 'Authorised'
    return { status: 200, json: { pspReference: `PSP${number}`, resultCode } }
  },
  mismatch: { status: 422, json: { status: 422, errorCode: '704', message: 'request already processed or in progress' } },
}

export async function startProvider(provider: Provider) {
  const known = new Map<string, { body: string; answer: Answer }>()
  const answerTo = async (request: IncomingMessage): Promise<Answer> => {
    const body = await text(request)
    const key = String(request.headers['idempotency-key'])
    const before = known.get(key)
    if (before) return before.body === body ? before.answer : provider.mismatch
    const answer = provider.decide({ number: known.size + 1, body })
    known.set(key, { body, answer })
    return answer
  }
  const server = createServer(async (request, response) => {
    const { status, json } = await answerTo(request)
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(json))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    /** How many charges, declined ones included. */
    charges: () => known.size,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}
