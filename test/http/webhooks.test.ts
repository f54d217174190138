// Webhooks over real sockets, signed by the libraries of their senders.
import express from 'express'
import { Webhook } from 'standardwebhooks'
import Stripe from 'stripe'
import { describe, expect, onTestFinished, test } from 'vitest'
import { idempotency as protectExpress, webhook as receiveExpress } from '../../src/adapters/express.js'
import { standardWebhooks, stripeWebhooks, type Verify, webhook } from '../../src/adapters/node.js'
import { createOnce, type Message, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { listen } from '../adapters/listen.js'
import { codeOf } from '../support/code-of.js'
import { useDatabase } from '../support/postgres/database.js'

const database = useDatabase()
const stripe = new Stripe('sk_test_nobody')
const secretOf = (name: string) => `whsec_${Buffer.from(`the secret called ${name}`).toString('base64')}`

interface Signing {
  readonly secret?: string
  /** Age of the signature, in seconds. */
  readonly age?: number
}

interface Scheme {
  sign(id: string, body: string, signing?: Signing): Record<string, string>
  verify(...secrets: string[]): Verify
}

const standard: Scheme = {
  sign(id, body, { secret = 'current', age = 0 } = {}) {
    const at = new Date(Date.now() - age * 1000)
    const signature = new Webhook(secretOf(secret)).sign(id, at, body)
    return { 'webhook-id': id, 'webhook-timestamp': String(Math.floor(at.getTime() / 1000)), 'webhook-signature': signature }
  },
  verify: (...secrets) => standardWebhooks(secrets.map((secret) => new Webhook(secretOf(secret)))),
}

const byStripe: Scheme = {
  sign: (_, payload, { secret = 'current', age = 0 } = {}) => ({
    'stripe-signature': stripe.webhooks.generateTestHeaderString({
      payload,
      secret: secretOf(secret),
      timestamp: Math.floor(Date.now() / 1000) - age,
    }),
  }),
  verify: (...secrets) => stripeWebhooks(stripe, secrets.map(secretOf)),
}

const paid = (id: string) => `{"id":"${id}", "type":"invoice.paid","data":{"object":{"id":"in_1"}}}`

type Served = (tenant: string, verify: Verify, refused: unknown[]) => Parameters<typeof listen>[0]

/** A receiver on the test's database, with a tenant of its own. */
async function setup(verify: Verify, { served = plain() }: { served?: Served } = {}) {
  await database.ensure('create table if not exists received (tenant text, id text, body jsonb)')
  const tenant = `tenant-${crypto.randomUUID()}`
  const refused: unknown[] = []
  const { url, close } = await listen(served(tenant, verify, refused))
  onTestFinished(close)
  return {
    refused,
    send: async (headers: Record<string, string>, body: string | Uint8Array) =>
      fetch(url, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body }),
    received: async () => (await database.pool.query('select id, body from received where tenant = $1', [tenant])).rows,
    keys: async () => (await database.pool.query('select key, state from oncekey.keys where tenant = $1', [tenant])).rows,
  }
}

/** Without a framework. */
function plain(pool = database.pool): Served {
  return (tenant, verify, refused) => {
    const onError: Parameters<typeof webhook>[1]['onError'] = (_error, _request, response) => void response.writeHead(500).end()
    return webhook(consumerOn(pool, tenant), { verify, onError, maxBodyBytes: 10_000, onRefused: (error) => refused.push(error) })
  }
}

function consumerOn(pool: typeof database.pool, tenant: string) {
  const once = createOnce({ store: postgresStore(fromPg(pool)), storeTimeout: '2s' })
  let failures = 1
  return once.consumer('events', { tenant }, async (tx, { id, body }: Message) => {
    await tx.query('insert into received values ($1, $2, $3)', [tenant, id, body])
    if ((body as { type?: string }).type === 'unlucky' && failures-- > 0) throw new Error('unlucky')
  })
}

describe.each([
  ['Standard Webhooks', standard],
  ['Stripe', byStripe],
])('%s', (_, { sign, verify }) => {
  test('a message is done once, also when it is delivered again with a signature of its own', async () => {
    const { send, received } = await setup(verify('current'))
    const body = paid('evt_1')
    const first = await send(sign('evt_1', body, { age: 60 }), body)
    const again = await send(sign('evt_1', body), body)
    expect([first.status, first.headers.get('idempotent-replayed')]).toEqual([204, null])
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([204, 'true'])
    expect(await received()).toEqual([{ id: 'evt_1', body: JSON.parse(body) }])
  })

  test('what is not signed so is refused, without a word to the store', async () => {
    // A store that is not there would be a 503.
    const nowhere = database.createPool({ connectionString: 'postgres://nobody@127.0.0.1:1/nothing' })
    const { send, refused } = await setup(verify('current'), { served: plain(nowhere) })
    const body = paid('evt_1')
    const honest = sign('evt_1', body)
    const without = (dropped: string) => Object.fromEntries(Object.entries(honest).filter(([header]) => header !== dropped))
    const forged: [string, Record<string, string>, string | Uint8Array][] = [
      ['another body', honest, paid('evt_2')],
      ['one more space', honest, `${body} `],
      ['a mark in front', honest, `\ufeff${body}`],
      ['nothing', honest, ''],
      ['bytes that are no text', honest, Buffer.concat([Buffer.from(body), Buffer.of(0xff)])],
      ['another secret', sign('evt_1', body, { secret: 'another' }), body],
      ['an old signature', sign('evt_1', body, { age: 600 }), body],
      ...Object.keys(honest).map((dropped): [string, Record<string, string>, string] => [`no ${dropped}`, without(dropped), body]),
    ]
    for (const [what, headers, sent] of forged) {
      const response = await send(headers, sent)
      expect([what, response.status, ((await response.json()) as { code: string }).code]).toEqual([what, 400, 'signature_invalid'])
    }
    expect(refused).toHaveLength(forged.length)
    expect(refused.every((error) => error instanceof Error)).toBe(true)
    expect((await send(honest, body)).status).toBe(503)
  })

  test('bytes are not mended before they are verified: what merely decodes to the signed text is refused', async () => {
    const { send, received } = await setup(verify('current'))
    const signed = paid('evt_\ufffd')
    const [before, behind] = signed.split('\ufffd') as [string, string]
    const mended = Buffer.concat([Buffer.from(before), Buffer.of(0xff), Buffer.from(behind)])
    expect(mended.toString()).toBe(signed)
    expect((await send(sign('evt_1', signed), mended)).status).toBe(400)
    expect((await send(sign('evt_1', signed), signed)).status).toBe(204)
    expect(await received()).toHaveLength(1)
  })

  test('two secrets are both good while one replaces the other, and no third', async () => {
    const { send, received } = await setup(verify('current', 'previous'))
    for (const [secret, status] of [
      ['current', 204],
      ['previous', 204],
      ['next', 400],
    ] as const) {
      const body = paid(`evt_${secret}`)
      expect((await send(sign(`evt_${secret}`, body, { secret }), body)).status).toBe(status)
    }
    expect((await received()).map(({ id }) => id)).toEqual(['evt_current', 'evt_previous'])
  })

  test('work that throws is a 500 and leaves nothing; the redelivery does it', async () => {
    const { send, received, keys } = await setup(verify('current'))
    const body = '{"id":"evt_1","type":"unlucky"}'
    expect((await send(sign('evt_1', body), body)).status).toBe(500)
    expect([await received(), await keys()]).toEqual([[], []])
    expect((await send(sign('evt_1', body), body)).status).toBe(204)
    expect(await keys()).toEqual([{ key: 'evt_1', state: 'complete' }])
  })

  test('its own word for a bad signature is told to the service, not to the sender', async () => {
    const { send, refused } = await setup(verify('current'))
    const body = paid('evt_1')
    const response = await send(sign('evt_1', body, { secret: 'another' }), body)
    expect(String(refused[0])).toMatch(/no .*signatures? found/i)
    expect(await response.text()).not.toMatch(/found/i)
  })
})

test('the id of Standard Webhooks is part of what is signed, and its border cannot be moved', async () => {
  const { send, received } = await setup(standard.verify('current'))
  const body = '1.1'
  const headers = standard.sign('msg_1', body)
  expect((await send({ ...headers, 'webhook-id': 'msg_2' }, body)).status).toBe(400)
  // "msg_1" + time + "TIME.1", signed, is the same text as "msg_1.time" + TIME + "1".
  const now = String(Math.floor(Date.now() / 1000))
  const signed = standard.sign('msg_1', `${now}.1`)
  const moved = { ...signed, 'webhook-id': `msg_1.${signed['webhook-timestamp']}`, 'webhook-timestamp': now }
  expect(new Webhook(secretOf('current')).verify('1', moved)).toBe(1)
  expect((await send(moved, '1')).status).toBe(400)
  expect(await received()).toEqual([])
})

test('an event of Stripe without an id is refused', async () => {
  const { send, keys } = await setup(byStripe.verify('current'))
  const response = await send(byStripe.sign('', '{}'), '{}')
  expect([response.status, ((await response.json()) as { code: string }).code, await keys()]).toEqual([400, 'key_invalid', []])
})

test('a function of its own may refuse by returning nothing, and sees the request', async () => {
  const { send, refused, received } = await setup(({ header, body, native }) => {
    const { url } = native as { url: string }
    return header('X-Token') === 'right' ? { id: 'm', body: { url, bytes: body.length } } : undefined
  })
  expect((await send({ 'x-token': 'wrong' }, '{}')).status).toBe(400)
  expect(refused).toEqual([new Error('verify returned no message.')])
  expect((await send({ 'x-token': 'right' }, 'é')).status).toBe(204)
  expect(await received()).toEqual([{ id: 'm', body: { url: '/', bytes: 2 } }])
})

test('a body over the limit is refused before anybody looks at its signature', async () => {
  const { send, refused } = await setup(standard.verify('current'))
  const body = `"${'x'.repeat(10_000)}"`
  expect((await send(standard.sign('m', body), body)).status).toBe(413)
  expect(refused).toEqual([])
})

describe('in Express', () => {
  const app = (before: (app: express.Express, tenant: string) => unknown): Served => {
    return (tenant, verify, refused) => {
      const app = express()
      before(app, tenant)
      app.post('/', receiveExpress(consumerOn(database.pool, tenant), { verify, onRefused: (error) => refused.push(error) }))
      app.use(((error, _request, response, _next) => void response.status(500).send(error.code)) as express.ErrorRequestHandler)
      return app
    }
  }
  const body = paid('evt_1')

  test('a parser that threw the bytes away is an error with a code, and a parser that keeps them is none', async () => {
    const gone = await setup(standard.verify('current'), { served: app((app) => app.use(express.json())) })
    const response = await gone.send(standard.sign('evt_1', body), body)
    expect([response.status, await response.text(), gone.refused]).toEqual([500, 'raw_body_gone', []])
    const verify: Parameters<typeof express.json>[0] = {
      verify(request, _, buffer) {
        Object.assign(request, { rawBody: buffer })
      },
    }
    const kept = await setup(standard.verify('current'), { served: app((app) => app.use(express.json(verify))) })
    expect((await kept.send(standard.sign('evt_1', body), body)).status).toBe(204)
  })

  test('behind idempotency() it says where it belongs', async () => {
    const once = createOnce({ store: postgresStore(fromPg(database.pool)) })
    const served = app((app, tenant) => app.use(protectExpress(once, { tenant: () => tenant, afterFailure: 'rerun' })))
    const { send } = await setup(standard.verify('current'), { served })
    const response = await send({ ...standard.sign('evt_1', body), 'idempotency-key': 'k' }, body)
    expect(await response.text()).toBe('layers_nested')
  })
})

test('another body under a known id is a 422 where the consumer compares bodies', async () => {
  const { send } = await setup(standard.verify('current'), {
    served(tenant, verify) {
      const once = createOnce({ store: postgresStore(fromPg(database.pool)) })
      const compare = { tenant, fingerprint: ({ body }: Message) => ({ value: body }) }
      return webhook(
        once.consumer('compared', compare, () => {}),
        { verify },
      )
    },
  })
  const deliver = async (body: string) => (await send(standard.sign('m', body), body)).status
  expect([await deliver('{"a":1,"b":2}'), await deliver('{"b":2,"a":1}'), await deliver('{"a":1,"b":3}')]).toEqual([204, 204, 422])
})

test('a message that is done is a 2xx for the sender, also where its answer was too large to be kept', async () => {
  const { send } = await setup(standard.verify('current'), {
    served(tenant, verify) {
      const once = createOnce({ store: postgresStore(fromPg(database.pool)), maxAnswerBytes: 0 })
      return webhook(
        once.consumer('answering', { tenant }, () => reply(202, { accepted: true })),
        { verify },
      )
    },
  })
  const deliver = async () => {
    const response = await send(standard.sign('m', '{}'), '{}')
    return [response.status, await response.text()]
  }
  expect([await deliver(), await deliver()]).toEqual([
    [202, '{"accepted":true}'],
    [202, ''],
  ])
})

test('says at start what is wrong', () => {
  const consumer = consumerOn(database.pool, 'checked')
  const verify = standard.verify('current')
  expect(codeOf(() => webhook({} as never, { verify }))).toBe('option_invalid')
  expect(codeOf(() => webhook(consumer, {} as never))).toBe('option_invalid')
  expect(codeOf(() => webhook(consumer, { verify, onRefused: 1 as never }))).toBe('option_invalid')
  expect(codeOf(() => webhook(consumer, { verify, maxBodyBytes: -1 }))).toBe('option_invalid')
  expect(codeOf(() => webhook(consumer, { verify }))).toBe(null)
})

test('the type of a verified message must be the one that the consumer takes', () => {
  const once = createOnce({ store: postgresStore(fromPg(database.pool)) })
  const onEvent = once.consumer('typed', { tenant: 'single' }, (_, { body }: Message<Stripe.Event>) => void body.type)
  webhook(onEvent, { verify: stripeWebhooks(stripe, secretOf('current')) })
  // @ts-expect-error It may be anything.
  webhook(onEvent, { verify: standardWebhooks(new Webhook(secretOf('current'))) })
  // @ts-expect-error It has no type.
  webhook(onEvent, { verify: () => ({ id: 'm', body: {} }) })
})
