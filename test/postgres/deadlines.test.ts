import { connect, createServer, type Socket } from 'node:net'
import type pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { createOnce, type OnceEvent, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { aClaim, take } from '../../src/testing/store-cases/store-case.js'
import { workers } from '../../src/workers/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'

const database = useDatabase()
const limit = { timeoutMs: 300 }

/** The way to the database, which can go silent: it passes nothing on, and closes nothing. */
async function silentWay() {
  const { hostname, port } = new URL(database.url)
  const pairs: { isSilent: boolean; readonly ends: readonly Socket[] }[] = []
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname)
    const pair = { isSilent: false, ends: [client, upstream] }
    pairs.push(pair)
    const pass = (from: Socket, to: Socket) => {
      from.on('data', (bytes) => void (pair.isSilent || to.write(bytes)))
      from.on('error', () => {})
      from.on('close', () => void (pair.isSilent || to.destroy()))
    }
    pass(client, upstream)
    pass(upstream, client)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const { ends } of pairs) for (const end of ends) end.destroy()
    server.close()
  })
  const url = new URL(database.url)
  url.port = String((server.address() as { port: number }).port)
  return {
    url: url.href,
    /** All connections that there are now. New ones work. */
    silence() {
      for (const pair of pairs) pair.isSilent = true
    },
  }
}

async function silentPool(options: pg.PoolConfig = {}) {
  const way = await silentWay()
  const pool = database.createPool({ connectionString: way.url, max: 3, ...options })
  return { pool, silence: way.silence }
}

/** Opens all connections of the pool. */
async function fill(pool: pg.Pool) {
  const clients = await Promise.all(Array.from({ length: pool.options.max as number }, () => pool.connect()))
  for (const client of clients) client.release()
}

const unused = (pool: pg.Pool) => pool.idleCount === pool.totalCount && pool.waitingCount === 0

test('a statement on a connection that went silent ends at its limit, and the connection is destroyed', async () => {
  const { pool, silence } = await silentPool()
  const connection = fromPg(pool)
  await fill(pool)
  silence()
  const silent = pool.totalCount
  const asked = Array.from({ length: silent }, () => connection.query('select 1', [], limit))
  for (const each of asked) await expect(each).rejects.toMatchObject({ code: 'store_timeout' })
  await waitUntil('they are gone', () => pool.totalCount === 0)
  expect(await connection.query('select 1 as one', [], limit)).toEqual([{ one: 1 }])
})

test('a caller that has gone keeps no place in the pool', async () => {
  const pool = database.createPool({ max: 1 })
  const connection = fromPg(pool)
  const client = await pool.connect()
  const error = await connection.query('select 1', [], { timeoutMs: 50 }).catch((caught: unknown) => caught)
  expect(error).toMatchObject({ code: 'store_timeout', neverSent: true })
  client.release()
  await waitUntil('it went back', () => unused(pool))
  expect(await connection.query('select 1 as one', [], limit)).toEqual([{ one: 1 }])
})

test('a pool that would wait for a connection without limit gets one, and one that has its own keeps it', async () => {
  const [unlimited, limited, left] = [
    database.createPool(),
    database.createPool({ connectionTimeoutMillis: 700 }),
    database.createPool(),
  ] as const
  await Promise.all(
    [fromPg(unlimited), fromPg(limited), fromPg(left, { connectTimeoutMs: false })].map((each) => each.query('select 1', [])),
  )
  expect([unlimited, limited, left].map(({ options }) => options.connectionTimeoutMillis || 0)).toEqual([15_000, 700, 0])
})

test('a statement that fails leaves its connection in the pool', async () => {
  const pool = database.createPool({ max: 1 })
  const connection = fromPg(pool)
  const pid = async () => (await connection.query('select pg_backend_pid() as pid', []))[0]?.pid
  const before = await pid()
  await expect(connection.query('select nonsense', [])).rejects.toThrow(/nonsense/)
  expect(await pid()).toBe(before)
})

test('a transaction whose work takes too long is destroyed with all that waits in it', async () => {
  // Else the pool itself would end the connection, after 10 s.
  const pool = database.createPool({ max: 2, idleTimeoutMillis: 0 })
  const connection = fromPg(pool)
  await database.ensure('create table if not exists slow (id integer primary key, note text)')
  await database.pool.query(`insert into slow values (1, 'before')`)
  let ofWork: unknown
  const working = connection.transaction(
    async (tx) => {
      await tx.query(`update slow set note = 'during' where id = 1`)
      await tx.query('select pg_sleep(600)').catch((error: unknown) => {
        ofWork = error
        throw error
      })
    },
    { timeoutMs: 2_000, workMs: 200 },
  )
  await expect(working).rejects.toMatchObject({ code: 'store_timeout' })
  await waitUntil('the work hears of it', () => ofWork)
  await waitUntil('its connection is gone', () => pool.totalCount === 0)
})

test('requests recover from silent connections, and workers go on by themselves', async () => {
  const { pool, silence } = await silentPool()
  const events: OnceEvent[] = []
  const once = createOnce({ store: postgresStore(fromPg(pool)), storeTimeout: '1s', onEvent: (event) => void events.push(event) })
  const execute = (key: string) =>
    once.execute({ tenant: 't', scope: 's', key, fingerprint: false, afterFailure: 'rerun' }, () => reply(200))
  await execute('before')
  await fill(pool)
  silence()
  const began = performance.now()
  const outcomes = await Promise.allSettled(Array.from({ length: 10 }, (_, index) => execute(`during-${index}`)))
  expect(performance.now() - began).toBeLessThan(2_500)
  for (const outcome of outcomes) if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ status: 503 })
  await waitUntil('requests are answered again', () =>
    execute(crypto.randomUUID()).then(
      ({ kind }) => kind === 'executed',
      () => false,
    ),
  )

  const background = workers(once, { sweeper: { every: '50ms' }, reaper: { every: '50ms' }, completer: { every: '50ms' } })
  const ran = () => new Set(events.flatMap((event) => (event.type === 'worker-ran' ? [event.worker] : [])))
  background.start()
  await waitUntil('all have run', () => ran().size === 3)
  await fill(pool)
  silence()
  events.length = 0
  await waitUntil('all run again', () => ran().size === 3, 40_000)
  await background.stop()
})

test('a phase on a connection that goes silent ends, and the next attempt goes on', async () => {
  const { pool, silence } = await silentPool()
  await database.ensure('create table if not exists orders_of_silence (id text primary key)')
  const once = createOnce({ store: postgresStore(fromPg(pool)), storeTimeout: '500ms', maxRun: '1s' })
  let attempts = 0
  const operation = once.operation('silent.phase', {}, async (run) => {
    await run.phase('order', async (tx) => {
      attempts += 1
      if (attempts === 1) silence()
      await tx.query('insert into orders_of_silence values ($1)', [run.id])
    })
    return reply(201)
  })
  const ask = () => operation.run({ tenant: 't', key: 'k', input: {} })
  await expect(ask()).rejects.toMatchObject({ status: 503 })
  await waitUntil('its connection is gone', () => unused(pool))
  const outcome = await waitUntil('it is done', () =>
    ask().then(
      (each) => each.kind === 'executed' && each,
      () => false,
    ),
  )
  expect(outcome).toMatchObject({ kind: 'executed', stored: true })
  const { rows } = await database.pool.query('select count(*)::integer as count from orders_of_silence')
  expect(rows).toEqual([{ count: 1 }])
})

test("in a user's transaction on a connection that goes silent, a within ends soon after storeTimeout", async () => {
  const { pool, silence } = await silentPool({ max: 1 })
  const once = createOnce({ store: postgresStore(fromPg(database.pool)), storeTimeout: '500ms' })
  const tx = await pool.connect()
  await tx.query('begin')
  silence()
  const began = performance.now()
  await expect(once.within(tx, { tenant: 't', scope: 's', key: 'silent' }, () => {})).rejects.toMatchObject({ code: 'store_timeout' })
  expect(performance.now() - began).toBeLessThan(10_000)
  tx.release(true)
})

test('a store whose driver hands out no connection to destroy lets its caller go all the same', async () => {
  const silent = { query: () => new Promise<never>(() => {}), transaction: () => new Promise<never>(() => {}) }
  const connection = { ...silent, within: () => silent, script: async () => {} }
  const store = postgresStore(connection)
  await expect(store.keyClaim(aClaim(), limit)).rejects.toMatchObject({ code: 'store_timeout' })
  const once = createOnce({ store, storeTimeout: '200ms' })
  const local = once.local('local', {}, () => reply(200))
  await expect(local.run({ tenant: 't', key: 'k', input: {} })).rejects.toMatchObject({ code: 'store_timeout' })
})

test('a claim that was told that it failed is withdrawn, so its key is free long before its lease ends', async () => {
  const { pool, silence } = await silentPool({ max: 1 })
  const once = createOnce({ store: postgresStore(fromPg(pool)), storeTimeout: '500ms', lease: '10m' })
  const request = { tenant: 'withdrawn', scope: 's', fingerprint: false, afterFailure: 'park' } as const
  await once.execute({ ...request, key: 'first' }, () => reply(200))
  // It arrives, but its acknowledgement does not.
  const lock = await database.pool.connect()
  await lock.query('begin; lock table oncekey.keys in access exclusive mode')
  const failing = once.execute({ ...request, key: 'k' }, () => reply(500))
  await waitUntil('the claim stands behind the lock', async () => {
    const { rows } = await database.pool.query(`select from pg_stat_activity where wait_event_type = 'Lock' and query like '%insert into%'`)
    return rows.length > 0
  })
  silence()
  await expect(failing).rejects.toMatchObject({ status: 503 })
  await lock.query('rollback')
  lock.release()
  const store = postgresStore(fromPg(database.pool))
  await waitUntil('the claim is carried out, and undone', async () => {
    const verdict = await store.keyClaim(aClaim({ ...request, key: 'k', fingerprint: null }))
    return verdict.kind === 'execute'
  })
  expect((await take(store, aClaim())).lease.fence).toBe(1)
})

test('a duplicate of local work has its answer even if its transaction never ends', async () => {
  const { pool, silence } = await silentPool({ max: 2 })
  const connection = fromPg(pool)
  let isLost = false
  const losesCommits: typeof connection = {
    ...connection,
    transaction: (work, limits) =>
      connection.transaction(async (tx) => {
        const value = await work(tx)
        if (isLost) silence()
        return value
      }, limits),
  }
  const once = createOnce({ store: postgresStore(losesCommits), storeTimeout: '10s' })
  const local = once.local('local.silent', {}, () => reply(201))
  const request = { tenant: 't', key: 'k', input: {} }
  await local.run(request)
  isLost = true
  const began = performance.now()
  expect(await local.run(request)).toMatchObject({ kind: 'replayed' })
  expect(performance.now() - began).toBeLessThan(5_000)
})
