import { createOnce, type Once } from 'oncekey'
import { type Connection, fromPg, postgresStore } from 'oncekey/postgres'
import { crashEverywhere } from 'oncekey/testing'
import type pg from 'pg'
import Stripe from 'stripe'
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { chargeAtAdyen } from '../../examples/payments/charge-at-adyen.js'
import { chargeAtStripe } from '../../examples/payments/charge-at-stripe.js'
import { localAdyen, localStripe, startProvider } from '../../examples/payments/local-providers.js'
import { stripeEvents } from '../../examples/payments/stripe-events.js'
import { listen } from '../adapters/listen.js'
import { useDatabase } from '../support/postgres/database.js'

type Tx = pg.PoolClient

const server = useDatabase()
let database: Connection<Tx>
beforeAll(async () => {
  database = fromPg(server.pool)
  await database.query('create table payments (invoice text, reference text, refunded integer not null default 0)', [])
})

const newOnce = () => createOnce({ store: postgresStore(database) })

const stripeAt = (port: number) => new Stripe('sk_test_local', { host: '127.0.0.1', port, protocol: 'http', maxNetworkRetries: 0 })

const providers = {
  Stripe: { local: localStripe, charge: (once: Once<Tx>, port: number) => chargeAtStripe(once, database, stripeAt(port)) },
  Adyen: {
    local: localAdyen,
    charge: (once: Once<Tx>, port: number) =>
      chargeAtAdyen(once, database, { url: `http://127.0.0.1:${port}`, apiKey: 'test', merchantAccount: 'TestMerchant' }),
  },
}

describe.each(['Stripe', 'Adyen'] as const)('a charge at %s', (name) => {
  async function setup() {
    const { local, charge } = providers[name]
    const provider = await startProvider(local)
    onTestFinished(provider.close)
    return { provider, operation: charge(newOnce(), provider.port) }
  }

  test('is made once and noted once, wherever the process crashes', async () => {
    const { provider, operation } = await setup()
    const { points } = await crashEverywhere({
      scenario() {
        const id = crypto.randomUUID()
        const before = provider.charges()
        const input = { id, cents: 1999, paymentMethod: 'pm_card_visa' }
        return {
          attempt: () => operation.run({ tenant: 'demo', key: id, input }),
          resume: () => operation.resume({ tenant: 'demo', key: id }),
          async check() {
            const payments = await database.query('select reference from payments where invoice = $1', [id])
            expect([payments.length, provider.charges() - before]).toEqual([1, 1])
          },
        }
      },
      async expireLeases() {
        await database.query('update oncekey.keys set locked_until = now() where locked_until > now()', [])
      },
    })
    expect(points).toContain('call charged:after')
  })

  test('that is declined is a 402, on the first request and on every retry, and asked for once', async () => {
    const { provider, operation } = await setup()
    const request = { tenant: 'demo', key: `declined at ${name}`, input: { id: 'in_1', cents: 1999, paymentMethod: 'declined' } }
    expect(await operation.run(request)).toMatchObject({ kind: 'executed', answer: { status: 402 } })
    expect(await operation.run(request)).toMatchObject({ kind: 'replayed', answer: { status: 402 } })
    expect(provider.charges()).toBe(1)
  })
})

test('an event of Stripe is taken in once, and one that nobody signed not at all', async () => {
  await database.query(`insert into payments (invoice, reference) values ('in_9', 'pi_refunded')`, [])
  const warned = vi.spyOn(console, 'warn').mockImplementation(() => {})
  onTestFinished(() => warned.mockRestore())
  const stripe = stripeAt(1)
  const { url, close } = await listen(stripeEvents(newOnce(), database, stripe, ['whsec_new', 'whsec_old']))
  onTestFinished(close)
  const payload = JSON.stringify({
    id: 'evt_9',
    object: 'event',
    type: 'refund.created',
    data: { object: { payment_intent: 'pi_refunded', amount: 500 } },
  })
  const deliver = async (secret: string) => {
    const signature = stripe.webhooks.generateTestHeaderString({ payload, secret })
    return (await fetch(url, { method: 'POST', headers: { 'stripe-signature': signature }, body: payload })).status
  }
  expect([await deliver('whsec_old'), await deliver('whsec_new'), await deliver('whsec_stranger')]).toEqual([204, 204, 400])
  expect(warned).toHaveBeenCalledOnce()
  expect(await database.query(`select refunded from payments where reference = 'pi_refunded'`, [])).toEqual([{ refunded: 500 }])
})
