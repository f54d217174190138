// The examples that take in messages: each has its effect once, whoever delivers it again, and whoever is killed.
import { Queue } from 'bullmq'
import { Redis } from 'ioredis'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { type RedisServer, startRedis } from '../support/redis.js'
import { waitUntil } from '../support/wait-until.js'
import { endLeases, post, runExample, startExample } from './process.js'

const events = useDatabase({ migrated: false })
const queued = useDatabase({ migrated: false })
let redis: RedisServer
beforeAll(async () => {
  // The example has one name for its queue, so nobody else may be there.
  redis = await startRedis('none')
})
afterAll(() => redis.stop())

test.concurrent('webhook-receiver takes in each event once, twenty at once, and when it is killed in the middle of one', async (context) => {
  const secret = `whsec_${Buffer.from('a secret of this test').toString('base64')}`
  const env = { DATABASE_URL: events.url, WEBHOOK_SECRET: secret }
  const start = () => startExample('webhook-receiver/server.ts', env, context)
  const deliver = async (url: string, id: string, signedWith = secret) => {
    const body = JSON.stringify({ type: 'invoice.paid', account: 'shop', cents: 100 })
    const now = new Date()
    const headers = {
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
      'webhook-signature': new Webhook(signedWith).sign(id, now, body),
    }
    return post(`${url}/webhooks`, headers, body)
  }

  const first = await start()
  expect(await deliver(first.url, 'msg_1')).toEqual({ status: 204, replayed: null, body: '' })
  expect(await deliver(first.url, 'msg_1')).toEqual({ status: 204, replayed: 'true', body: '' })
  expect((await deliver(first.url, 'msg_2', `whsec_${Buffer.from('of a stranger').toString('base64')}`)).status).toBe(400)
  const twenty = await Promise.all(Array.from({ length: 20 }, () => deliver(first.url, 'msg_3')))
  expect(twenty.filter(({ status, replayed }) => status === 204 && !replayed)).toHaveLength(1)

  const second = start()
  const blocker = await events.pool.connect()
  await blocker.query('begin; lock table balances in access exclusive mode')
  const lost = deliver(first.url, 'msg_4').catch(() => {})
  await waitUntil('the event is half taken in', async () => {
    const { rows } = await blocker.query(`select 1 from pg_locks where relation = 'balances'::regclass and not granted`)
    return rows.length
  })
  first.kill()
  await lost
  await blocker.query('commit')
  blocker.release()
  const { url, stop } = await second
  expect((await deliver(url, 'msg_4')).status).toBe(204)
  expect(await (await fetch(`${url}/balances`)).json()).toEqual([{ account: 'shop', cents: 300 }])

  const script = () => runExample('webhook-receiver/deliver.ts', ['msg_5', `${url}/webhooks`], env)
  expect([await script(), await script()]).toEqual(['204 taken in', '204 again'])
  expect(await stop()).toBe(0)
})

test.concurrent('queue-consumer has the effect of each message once, delivered again or killed in the middle of a refund', async (context) => {
  const env = { DATABASE_URL: queued.url, REDIS_URL: redis.url, STALLED_INTERVAL_MS: '500' }
  const start = () => startExample('queue-consumer/worker.ts', env, context)
  const queue = new Queue('payments', { connection: { url: redis.url } })
  const client = new Redis(redis.url)
  context.onTestFinished(async () => {
    client.disconnect()
    await queue.close()
  })
  const first = await start()
  await Promise.all([1, 2].map(() => runExample('queue-consumer/enqueue.ts', ['paid', 'm-1'], env)))
  await queue.addBulk(Array.from({ length: 20 }, () => ({ name: 'paid', data: { id: 'm-2', body: { account: 'acme', cents: 100 } } })))
  await waitUntil('all deliveries are done', async () => (await queue.getCompletedCount()) === 22)
  const outcomes = (await queue.getCompleted()).map(({ returnvalue }) => returnvalue as string)
  expect(outcomes.filter((kind) => kind === 'executed')).toHaveLength(2)
  expect(outcomes.filter((kind) => kind === 'replayed')).toHaveLength(20)
  const rowsOf = async (statement: string) => (await queued.pool.query(statement)).rows
  expect(await rowsOf('select message, cents from payments order by message')).toEqual([
    { message: 'm-1', cents: 500 },
    { message: 'm-2', cents: 100 },
  ])

  await runExample('queue-consumer/enqueue.ts', ['refund', 'm-3', 'slow'], env)
  await waitUntil('the provider has refunded', async () => (await rowsOf('select from provider_refunds')).length)
  first.kill()
  // Not before: it might have taken the refund.
  const second = await start()
  await queued.pool.query(endLeases)
  // BullMQ, too, waits for a lease: the dead worker's lock would be there for half a minute.
  const [job] = await queue.getActive()
  await client.del(`bull:payments:${job?.id}:lock`)
  await waitUntil('the refund is delivered again, and done', async () => (await queue.getCompletedCount()) === 23)
  const refunds = await rowsOf('select message, refund, (select count(*)::integer from provider_refunds) as made from refunds')
  expect(refunds).toEqual([{ message: 'm-3', refund: expect.stringMatching(/^re_/), made: 1 }])
  expect(await second.stop()).toBe(0)
})
