// Stripe's own client against the `stripe` profile: it must not see a difference to Stripe. Each of its retries waits half a second or
// more, so there are few of them.
import { randomUUID } from 'node:crypto'
import express from 'express'
import Stripe from 'stripe'
import { expect, test } from 'vitest'
import { serve } from '../../src/adapters/express.js'
import { reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { accountOf, startStripe } from './stripe-service.js'

const database = useDatabase()
const setup = (...settings: Parameters<typeof startStripe> extends [unknown, ...infer Rest] ? Rest : never) =>
  startStripe(database.pool, ...settings)

const charge = { amount: 100, currency: 'usd', source: 'tok_visa' }
const other = { ...charge, amount: 999 }

/** The error that Stripe's client throws. */
async function failure(call: Promise<unknown>): Promise<InstanceType<typeof Stripe.errors.StripeError>> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error instanceof Stripe.errors.StripeError) return error
  throw new Error(`Stripe's client should have thrown an error of its own, not ${String(error)}`)
}

/** The keys of the exchanges, without repetition: a client that retries sends one. */
const keysOf = (exchanges: readonly { key: string | undefined }[]) => [...new Set(exchanges.map(({ key }) => key))]
const statusesOf = (exchanges: readonly { status: number }[]) => exchanges.map(({ status }) => status)

test('a call and the same call again: one charge, and the marks of a replay', async () => {
  const { client, charged } = await setup()
  const idempotencyKey = randomUUID()
  const first = await client().charges.create(charge, { idempotencyKey })
  const again = await client().charges.create(charge, { idempotencyKey })

  expect(first.amount).toBe(100)
  expect(again).toEqual(first)
  expect(await charged()).toEqual([100])
  expect(first.lastResponse.headers).not.toHaveProperty('idempotent-replayed')
  expect(first.lastResponse.requestId).toMatch(/^req_\w+$/)
  expect(again.lastResponse.headers).toMatchObject({
    'idempotent-replayed': 'true',
    'original-request': first.lastResponse.requestId,
  })
})

test('a call without a key of its own has one of its client: two calls are two charges', async () => {
  const { client, charged, exchanges } = await setup()
  await client().charges.create(charge)
  await client().charges.create(charge)
  expect(await charged()).toEqual([100, 100])
  expect(keysOf(exchanges)).toEqual([expect.stringMatching(/^stripe-node-retry-/), expect.stringMatching(/^stripe-node-retry-/)])
})

test('two accounts with one key are charged each', async () => {
  const { client, charged } = await setup()
  const idempotencyKey = randomUUID()
  await client({ account: 'sk_test_one' }).charges.create(charge, { idempotencyKey })
  const { lastResponse } = await client({ account: 'sk_test_two' }).charges.create(other, { idempotencyKey })
  expect(lastResponse.headers).not.toHaveProperty('idempotent-replayed')
  expect(await charged()).toEqual([100, 999])
})

test('the answer is lost on its way: the client retries with the same key, and there is one charge', async () => {
  const { client, charged, exchanges, relay } = await setup()
  relay.loseAnswers(1)
  const { amount, lastResponse } = await client().charges.create(charge)
  expect([amount, lastResponse.headers['idempotent-replayed']]).toEqual([100, 'true'])
  expect(await charged()).toEqual([100])
  expect(statusesOf(exchanges)).toEqual([200, 200])
  expect(keysOf(exchanges)).toHaveLength(1)
})

test('the connection is lost while the charge is made: told 409, the client comes back until it has the answer', async () => {
  const { client, charged, exchanges, relay, work, runs } = await setup()
  work.shut()
  const call = client().charges.create(charge)
  await work.untilWaiting()
  relay.cutNow()
  await waitUntil('the retry was told that its key is in use', () => exchanges.some(({ status }) => status === 409))
  work.open()
  const { lastResponse } = await call
  expect(lastResponse.headers['idempotent-replayed']).toBe('true')
  expect([await charged(), runs()]).toEqual([[100], 1])
  expect(keysOf(exchanges)).toHaveLength(1)
})

test('an answer that is cut off half-way is not retried; the same call again gets the whole of it', async () => {
  const { client, charged, relay } = await setup()
  const idempotencyKey = randomUUID()
  relay.loseNextBody()
  expect((await failure(client().charges.create(charge, { idempotencyKey }))).type).toBe('StripeConnectionError')
  const { amount, lastResponse } = await client().charges.create(charge, { idempotencyKey })
  expect([amount, lastResponse.headers['idempotent-replayed']]).toEqual([100, 'true'])
  expect(await charged()).toEqual([100])
})

test('in use after the last retry', async () => {
  const { client, exchanges, work, runs } = await setup()
  const idempotencyKey = randomUUID()
  work.shut()
  const holder = client().charges.create(charge, { idempotencyKey })
  await work.untilWaiting()
  const error = await failure(client({ maxNetworkRetries: 1 }).charges.create(charge, { idempotencyKey }))
  work.open()
  await holder

  // No class of its own: the client has one for 400 and 404, and for all else it does not know.
  expect(error).toMatchObject({
    type: 'StripeAPIError',
    rawType: 'invalid_request_error',
    code: 'idempotency_key_in_use',
    statusCode: 409,
    doc_url: expect.stringMatching(/^https:/),
    message: expect.stringContaining('same key'),
  })
  expect(Number(error.headers?.['retry-after'])).toBeGreaterThanOrEqual(1)
  expect(statusesOf(exchanges)).toEqual([409, 409, 200])
  expect(runs()).toBe(1)
})

test('the same key with other parameters', async () => {
  const { client, charged, exchanges } = await setup()
  const idempotencyKey = randomUUID()
  await client().charges.create(charge, { idempotencyKey })
  const error = await failure(client().charges.create(other, { idempotencyKey }))

  expect(error).toBeInstanceOf(Stripe.errors.StripeIdempotencyError)
  expect(error).toMatchObject({ type: 'StripeIdempotencyError', rawType: 'idempotency_error', statusCode: 400 })
  expect(error.message).toContain('Keys for idempotent requests can only be used with the same parameters they were first used with')
  expect(await charged()).toEqual([100])
  expect(statusesOf(exchanges)).toEqual([200, 400])
})

test('the same key at another endpoint', async () => {
  const { client, charged } = await setup()
  const idempotencyKey = randomUUID()
  await client().charges.create(charge, { idempotencyKey })
  const error = await failure(client().refunds.create({ amount: 100 }, { idempotencyKey }))
  expect(error).toBeInstanceOf(Stripe.errors.StripeIdempotencyError)
  expect(error.message).toContain('Keys for idempotent requests can only be used for the same endpoint they were first used for')
  expect(await charged()).toEqual([100])
})

test('a key of 300 characters', async () => {
  const { client, charged, exchanges } = await setup()
  const error = await failure(client().charges.create(charge, { idempotencyKey: 'x'.repeat(300) }))
  expect(error).toBeInstanceOf(Stripe.errors.StripeInvalidRequestError)
  expect(error).toMatchObject({ rawType: 'invalid_request_error', code: 'key_invalid', statusCode: 400 })
  expect(error.message).toContain('255')
  expect(await charged()).toEqual([])
  expect(statusesOf(exchanges)).toEqual([400])
})

test('a declined card is declined again, without a second try', async () => {
  const declined = { error: { type: 'card_error', code: 'card_declined', decline_code: 'insufficient_funds', message: 'Declined.' } }
  const { client, runs } = await setup({ answer: (response) => response.status(402).json(declined) })
  const idempotencyKey = randomUUID()
  for (const replayed of [undefined, 'true']) {
    const error = await failure(client().charges.create(charge, { idempotencyKey }))
    expect(error).toMatchObject({ type: 'StripeCardError', code: 'card_declined', decline_code: 'insufficient_funds' })
    expect(error.headers?.['idempotent-replayed']).toBe(replayed)
  }
  expect(runs()).toBe(1)
})

const broken = { error: { type: 'api_error', message: 'Something went wrong on our end.' } }

test('a 500 is stored: the retry of the client gets it again', async () => {
  const { client, exchanges, runs } = await setup({ answer: (response) => response.status(500).json(broken) })
  const error = await failure(client({ maxNetworkRetries: 1 }).charges.create(charge))
  expect(error).toMatchObject({ type: 'StripeAPIError', statusCode: 500, message: broken.error.message })
  expect(error.headers?.['idempotent-replayed']).toBe('true')
  expect([statusesOf(exchanges), runs()]).toEqual([[500, 500], 1])
})

test('Stripe-Should-Retry: false is kept with the answer: neither the call nor the same call again is retried', async () => {
  const { client, exchanges, runs } = await setup({
    answer: (response) => response.status(500).set('stripe-should-retry', 'false').json(broken),
  })
  const idempotencyKey = randomUUID()
  for (const replayed of [undefined, 'true']) {
    const error = await failure(client().charges.create(charge, { idempotencyKey }))
    expect(error.headers?.['idempotent-replayed']).toBe(replayed)
  }
  expect([statusesOf(exchanges), runs()]).toEqual([[500, 500], 1])
})

test('Stripe-Should-Retry: true on work that may run again: it does', async () => {
  const { client, exchanges, runs } = await setup({
    options: { afterFailure: 'rerun' },
    answer: (response, run) =>
      run === 1 ? response.status(503).set('stripe-should-retry', 'true').json(broken) : response.json({ id: 'ch_1', object: 'charge' }),
  })
  const { id, lastResponse } = await client({ maxNetworkRetries: 1 }).charges.create(charge)
  expect([id, lastResponse.headers['idempotent-replayed']]).toEqual(['ch_1', undefined])
  expect([statusesOf(exchanges), keysOf(exchanges).length, runs()]).toEqual([[503, 200], 1, 2])
})

test('work that breaks off without an answer: the retry is told that it failed for good, and neither runs it nor is retried', async () => {
  const { client, exchanges, runs } = await setup({ answer: (response) => response.destroy() })
  const error = await failure(client().charges.create(charge))
  expect(error).toMatchObject({ type: 'StripeAPIError', rawType: 'api_error', code: 'work_failed', statusCode: 500 })
  expect([error.headers?.['idempotent-replayed'], error.headers?.['stripe-should-retry']]).toEqual(['true', 'false'])
  expect([statusesOf(exchanges), runs()]).toEqual([[500], 1])
})

test('an operation behind serve(), fed with a form: one charge, and an error that is thrown is stored', async () => {
  let runs = 0
  const { client } = await setup({
    routes(app, once) {
      const create = once.operation('stripe.charges', {}, (_run, input) => {
        runs += 1
        const { amount } = input as { amount: string }
        if (amount === '999') throw new Error('the till is on fire')
        return reply(200, { id: 'ch_op', object: 'charge', amount: Number(amount) })
      })
      app.post('/v1/charges', express.urlencoded(), serve(create, { profile: 'stripe', tenant: accountOf, fingerprint: 'parsed' }))
      // As Express does for what is thrown, but in Stripe's words.
      const failed: express.ErrorRequestHandler = (_error, _request, response, _next) => void response.status(500).json(broken)
      app.use(failed)
    },
  })
  const [good, bad] = [randomUUID(), randomUUID()]
  const first = await client().charges.create(charge, { idempotencyKey: good })
  const again = await client().charges.create(charge, { idempotencyKey: good })
  expect(again).toEqual(first)
  expect(again.lastResponse.headers).toMatchObject({ 'idempotent-replayed': 'true', 'original-request': first.lastResponse.requestId })
  expect(runs).toBe(1)

  expect((await failure(client({ maxNetworkRetries: 0 }).charges.create(other, { idempotencyKey: bad }))).message).toBe(
    broken.error.message,
  )
  const stored = await failure(client({ maxNetworkRetries: 0 }).charges.create(other, { idempotencyKey: bad }))
  expect(stored).toMatchObject({ type: 'StripeAPIError', code: 'work_failed', statusCode: 500 })
  expect(runs).toBe(2)
})

test.each([
  ['a replay', charge, true],
  ['an error of the layer', other, false],
])('%s has a Request-Id of its own', async (_, again, replays) => {
  const { client } = await setup()
  const idempotencyKey = randomUUID()
  const first = await client().charges.create(charge, { idempotencyKey })
  const id = replays
    ? (await client().charges.create(again, { idempotencyKey })).lastResponse.requestId
    : (await failure(client().charges.create(again, { idempotencyKey }))).requestId
  expect(id).toMatch(/^req_\w+$/)
  expect(id).not.toBe(first.lastResponse.requestId)
})
