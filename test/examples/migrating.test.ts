// A key that was finished, or begun, before the migration is not run again after it. The old code is here as people have it in production.
import { Idempotency } from '@node-idempotency/core'
import { RedisStorageAdapter } from '@node-idempotency/storage-adapter-redis'
import { createClient } from '@redis/client'
import express, { type Request, type RequestHandler } from 'express'
import { createOnce, reply } from 'oncekey'
import { serve } from 'oncekey/express'
import { fromPg, postgresStore } from 'oncekey/postgres'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { importKeys } from '../../examples/migrating/import-keys.js'
import { inFront } from '../../examples/migrating/in-front.js'
import { nodeIdempotencyEntries } from '../../examples/migrating/old-redis.js'
import { keysTable, oldTables, responsesTable } from '../../examples/migrating/old-tables.js'
import { listen } from '../adapters/listen.js'
import { useDatabase } from '../support/postgres/database.js'
import { redisForTests } from '../support/redis.js'

const database = useDatabase()
beforeAll(async () => {
  await database.pool.query(oldTables)
  await database.pool.query('create table charges (key text not null, made_by text not null)')
})

const userOf = (request: Request) => request.get('x-user') as string
const charge = (key: string, madeBy: string) => database.pool.query('insert into charges values ($1, $2)', [key, madeBy])
const chargesOf = async (key: string) =>
  (await database.pool.query<{ made_by: string }>('select made_by from charges where key = $1', [key])).rows.map((row) => row.made_by)

/** A process with the new code, behind what stands in front of it. */
async function newProcess(front: RequestHandler) {
  const once = createOnce({ store: postgresStore(fromPg(database.pool)) })
  const createOrder = once.operation('orders.create', {}, async (run) => {
    await run.call('charged', () => charge(run.idempotencyKey, 'new').then(() => {}))
    return reply(201, { order: run.idempotencyKey, by: 'new' })
  })
  const router = express.Router()
  router.route('/orders').all(front, serve(createOrder, { tenant: userOf }))
  return sending(await listening(express().use('/', router).use('/v1', router)))
}

/** A process with the old code: takes the key in its table, or one whose lock ran out, works, and stores its response there. */
async function oldProcess({ lockTimeoutMs = 90_000 } = {}) {
  const app = express()
  app.post('/orders', async (request, response) => {
    const key = request.get('idempotency-key') as string
    const row = [userOf(request), key]
    const { rowCount } = await database.pool.query(
      `insert into idempotency_keys as old (user_id, idempotency_key, request_method, request_path, request_params, recovery_point)
       values ($1, $2, 'POST', '/orders', '{}', 'started') on conflict (user_id, idempotency_key) do update set locked_at = now()
       where old.recovery_point <> 'finished' and (old.locked_at is null or old.locked_at < now() - $3::float8 * interval '1 millisecond')`,
      [...row, lockTimeoutMs],
    )
    if (rowCount === 1) {
      await charge(key, 'old')
      await finishInOld(key)
    }
    const { rows } = await database.pool.query('select * from idempotency_keys where user_id = $1 and idempotency_key = $2', row)
    if (rows[0].recovery_point === 'finished') response.status(rows[0].response_code).json(rows[0].response_body)
    else response.status(409).json({ error: 'in progress' })
  })
  return sending(await listening(app))
}

async function finishInOld(key: string) {
  await database.pool.query(
    `update idempotency_keys set recovery_point = 'finished', locked_at = null, response_code = 201, response_body = $2
     where idempotency_key = $1`,
    [key, { order: key, by: 'old' }],
  )
}

/** As the old code leaves it when it has begun. */
const beginInOld = (key: string, lockedAt: string | null) =>
  database.pool.query(
    `insert into idempotency_keys (user_id, idempotency_key, request_method, request_path, request_params, recovery_point, locked_at)
     values (7, $1, 'POST', '/orders', '{"item":"tea"}', 'ride_created', $2)`,
    [key, lockedAt],
  )

async function listening(app: express.Express): Promise<string> {
  const { url, close } = await listen(app)
  onTestFinished(close)
  return url
}

const sending =
  (url: string) =>
  async (key: string, method = 'POST', path = '/orders') => {
    const headers = { 'content-type': 'application/json', 'idempotency-key': key, 'x-user': '7' }
    const response = await fetch(`${url}${path}`, { method, headers, body: '{"item":"tea"}' })
    const { status, headers: answered } = response
    const text = await response.text()
    return {
      status,
      body: text === '' ? null : (JSON.parse(text) as unknown),
      replayed: answered.get('idempotent-replayed'),
      retryAfter: answered.get('retry-after'),
    }
  }

const newKey = () => crypto.randomUUID()

describe.each(['running', 'gone'] as const)('the table with recovery points, old processes %s', (oldProcesses) => {
  const setup = () => newProcess(inFront(keysTable(database.pool, { userOf, oldProcesses })))

  test('a key that was finished there is replayed, and not run again', async () => {
    const [key, send] = [newKey(), await setup()]
    await beginInOld(key, null)
    await finishInOld(key)
    const answer = { status: 201, body: { order: key, by: 'old' }, replayed: 'true' }
    expect(await send(key)).toMatchObject(answer)
    expect(await send(key)).toMatchObject(answer)
    expect(await chargesOf(key)).toEqual([])
  })

  test.each([
    ['under way', '2026-11-17T00:00:00Z'],
    ['left half-way', null],
  ])('a key that is %s there is not run, and replayed once it is finished', async (_, lockedAt) => {
    const [key, send] = [newKey(), await setup()]
    await beginInOld(key, lockedAt)
    expect(await send(key)).toMatchObject({ status: 409, retryAfter: '5' })
    expect(await chargesOf(key)).toEqual([])
    await finishInOld(key)
    expect(await send(key)).toMatchObject({ status: 201, body: { by: 'old' } })
    expect(await chargesOf(key)).toEqual([])
  })

  test('a key that is unknown there runs once', async () => {
    const [key, send] = [newKey(), await setup()]
    expect(await send(key)).toMatchObject({ status: 201, body: { by: 'new' }, replayed: null })
    expect(await send(key)).toMatchObject({ status: 201, body: { by: 'new' }, replayed: 'true' })
    expect(await chargesOf(key)).toEqual(['new'])
  })

  test('a PATCH is looked up as well', async () => {
    const [key, send] = [newKey(), await setup()]
    await beginInOld(key, null)
    expect(await send(key, 'PATCH')).toMatchObject({ status: 409, retryAfter: '5' })
    await finishInOld(key)
    expect(await send(key, 'PATCH')).toMatchObject({ status: 201, body: { by: 'old' }, replayed: 'true' })
    expect(await chargesOf(key)).toEqual([])
  })

  test('if the table cannot be read, nothing runs', async () => {
    const key = newKey()
    const pool = database.createPool({ connectionString: database.url.replace(/\/[^/]*$/, '/no_such_database') })
    const app = express()
    app.set('env', 'test')
    app.post('/orders', inFront(keysTable(pool, { userOf, oldProcesses })), () => charge(key, 'new'))
    const headers = { 'idempotency-key': key, 'x-user': '7' }
    expect((await fetch(`${await listening(app)}/orders`, { method: 'POST', headers })).status).toBe(500)
    expect(await chargesOf(key)).toEqual([])
  })
})

describe('while processes with the old code are running', () => {
  const setup = async () => {
    const front = inFront(keysTable(database.pool, { userOf, oldProcesses: 'running' }))
    return { old: await oldProcess(), now: await newProcess(front) }
  }

  test('of requests to both at once, one runs', async () => {
    const { old, now } = await setup()
    for (let round = 0; round < 12; round += 1) {
      const key = newKey()
      const sends = Array.from({ length: 8 }, (_, index) => (index % 2 === round % 2 ? old : now))
      const answers = await Promise.all(sends.map((send) => send(key)))
      expect(answers.filter(({ status }) => status !== 201 && status !== 409)).toEqual([])
      expect(await chargesOf(key)).toHaveLength(1)
    }
  })

  test('a retry at the other one never runs', async () => {
    const { old, now } = await setup()
    const [first, second] = [newKey(), newKey()]
    expect([(await old(first)).status, await now(first)]).toMatchObject([201, { status: 201, body: { by: 'old' }, replayed: 'true' }])
    expect([(await now(second)).status, (await old(second)).status, (await now(second)).status]).toEqual([201, 409, 201])
    expect([await chargesOf(first), await chargesOf(second)]).toEqual([['old'], ['new']])
  })

  test('the lock of a key that is ours does not run out for the old code', async () => {
    const [key, { now }, old] = [newKey(), await setup(), await oldProcess({ lockTimeoutMs: 0 })]
    expect([(await now(key)).status, (await old(key)).status]).toEqual([201, 409])
    expect(await chargesOf(key)).toEqual(['new'])
  })
})

describe('keys that were imported', () => {
  const day = 86_400_000
  const nothing: RequestHandler = (_request, _response, next) => next()
  const once = createOnce({ store: postgresStore(fromPg(database.pool)) })
  const importAll = () => importKeys(once, fromPg(database.pool), { retentionMs: day, scopeOf: () => 'orders.create' })

  test('need no look in front: finished ones are replayed, begun ones are parked, the rest runs once; a second import changes nothing', async () => {
    await database.pool.query('delete from idempotency_keys')
    const [finished, begun, old, oldBegun, fresh] = [newKey(), newKey(), newKey(), newKey(), newKey()]
    for (const key of [finished, begun, old, oldBegun]) await beginInOld(key, null)
    for (const key of [finished, old]) await finishInOld(key)
    await database.pool.query(`update idempotency_keys set created_at = now() - interval '2 days' where idempotency_key = any($1)`, [
      [old, oldBegun],
    ])
    const send = await newProcess(nothing)
    for (const _ of [1, 2]) {
      expect(await importAll()).toEqual({ finished: 1, parked: 2, refused: 0 })
      expect(await send(finished)).toMatchObject({ status: 201, body: { order: finished, by: 'old' }, replayed: 'true' })
      for (const key of [begun, oldBegun]) expect(await send(key)).toMatchObject({ status: 500, body: { code: 'outcome_unknown' } })
    }
    expect([(await send(fresh)).replayed, (await send(fresh)).replayed]).toEqual([null, 'true'])
    expect((await send(old)).replayed).toBe(null)
    expect(await Promise.all([finished, begun, oldBegun, fresh, old].map(chargesOf))).toEqual([[], [], [], ['new'], ['new']])
  })

  test('are forgotten when the old system would have forgotten them', async () => {
    const key = newKey()
    await beginInOld(key, null)
    await finishInOld(key)
    await database.pool.query(`update idempotency_keys set created_at = now() - interval '20 hours' where idempotency_key = $1`, [key])
    await importAll()
    const { rows } = await database.pool.query(
      'select extract(epoch from expires_at - now())::float8 / 3600 as hours from oncekey.keys where key = $1',
      [key],
    )
    expect(rows[0].hours).toBeGreaterThan(3.9)
    expect(rows[0].hours).toBeLessThanOrEqual(4)
  })

  test.each([
    ['quotes', '"KEY"', 'KEY'],
    ['escapes', '"KEY\\"\\\\"', 'KEY"\\'],
    ['quotes and a parameter', '"KEY;a";v=1', 'KEY;a'],
  ])('are the keys that the server reads: %s', async (_, ...forms) => {
    const id = newKey()
    const [header, key] = forms.map((form) => form.replace('KEY', id)) as [string, string]
    await beginInOld(header, null)
    await finishInOld(header)
    await importAll()
    expect(await (await newProcess(nothing))(header)).toMatchObject({ status: 201, body: { by: 'old' }, replayed: 'true' })
    expect(await chargesOf(key)).toEqual([])
  })

  test('may have an answer without a body', async () => {
    const key = newKey()
    await beginInOld(key, null)
    await finishInOld(key)
    await database.pool.query('update idempotency_keys set response_code = 204, response_body = null where idempotency_key = $1', [key])
    await importAll()
    expect(await (await newProcess(nothing))(key)).toMatchObject({ status: 204, body: null, replayed: 'true' })
    expect(await chargesOf(key)).toEqual([])
  })

  test('are counted if oncekey refuses them, and the others are imported', async () => {
    await database.pool.query('delete from idempotency_keys')
    const [finished, begun, key] = ['f'.repeat(256), 'b'.repeat(256), newKey()]
    for (const each of [finished, begun, key]) await beginInOld(each, null)
    for (const each of [finished, key]) await finishInOld(each)
    expect(await importAll()).toEqual({ finished: 1, parked: 0, refused: 2 })
    const send = await newProcess(nothing)
    expect([(await send(finished)).status, (await send(begun)).status, (await send(key)).status]).toEqual([400, 400, 201])
    expect(await Promise.all([finished, begun, key].map(chargesOf))).toEqual([[], [], []])
  })

  test('that are parked run when a person says that nothing happened', async () => {
    const key = newKey()
    await beginInOld(key, null)
    await importAll()
    await once.resolve({ tenant: '7', scope: 'orders.create', key }, { as: 'did-not-happen', by: 'alice' })
    expect(await (await newProcess(nothing))(key)).toMatchObject({ status: 201, body: { by: 'new' } })
    expect(await chargesOf(key)).toEqual(['new'])
  })
})

test('the table with responses: what is in it is replayed, and the rest runs once', async () => {
  const [known, fresh] = [newKey(), newKey()]
  await database.pool.query(`insert into idempotent_responses (key, status, response) values ($1, 402, '{"error":"card_declined"}')`, [
    known,
  ])
  const send = await newProcess(inFront(responsesTable(database.pool)))
  expect(await send(known)).toMatchObject({ status: 402, body: { error: 'card_declined' }, replayed: 'true' })
  expect([(await send(fresh)).replayed, (await send(fresh)).replayed]).toEqual([null, 'true'])
  expect([await chargesOf(known), await chargesOf(fresh)]).toEqual([[], ['new']])
})

test('entries of @node-idempotency in Redis: finished ones are replayed, begun ones are not run, and the rest runs once', async () => {
  const redis = await redisForTests()
  onTestFinished(() => redis.stop())
  const [storage, client] = [new RedisStorageAdapter({ url: redis.url }), createClient({ url: redis.url })]
  client.on('error', () => {})
  await Promise.all([storage.connect(), client.connect()])
  onTestFinished(async () => {
    await storage.disconnect()
    client.destroy()
  })
  const library = new Idempotency(storage)
  const request = (key: string) => ({ method: 'POST', path: '/orders', headers: { 'idempotency-key': key }, body: { item: 'tea' } })
  const [finished, begun, fresh] = [newKey(), newKey(), newKey()]
  await library.onRequest(request(finished))
  await library.onResponse(request(finished), { body: { order: finished, by: 'old' }, additional: { statusCode: 201 } })
  await library.onRequest(request(begun))

  const send = await newProcess(inFront(nodeIdempotencyEntries(client)))
  expect(await send(finished)).toMatchObject({ status: 201, body: { by: 'old' }, replayed: 'true' })
  expect(await send(begun)).toMatchObject({ status: 409 })
  expect([(await send(fresh)).replayed, (await send(fresh)).replayed]).toEqual([null, 'true'])
  expect([await chargesOf(finished), await chargesOf(begun), await chargesOf(fresh)]).toEqual([[], [], ['new']])

  const ofRouter = await newProcess(inFront(nodeIdempotencyEntries(client, { pathOf: ({ url }) => url })))
  expect(await ofRouter(finished, 'POST', '/v1/orders')).toMatchObject({ status: 201, body: { by: 'old' }, replayed: 'true' })
  expect(await ofRouter(begun, 'POST', '/v1/orders')).toMatchObject({ status: 409 })
  expect([await chargesOf(finished), await chargesOf(begun)]).toEqual([[], []])
})
