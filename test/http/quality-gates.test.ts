import { readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { type Connection, fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { aClaim } from '../../src/testing/store-cases/store-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { isReplay, problemOf } from './seen.js'
import { useServers } from './servers.js'
import { everywhere, leaseMs, setup } from './setup.js'

const database = useDatabase()
const setupServers = useServers(database)

const key = '"k"'
const body = '{"amount":100}'
const hour = 3_600_000

describe.each(everywhere)('with %s() in the %s profile', (surface, profile) => {
  test('same key + same body twice: both responses identical, the second is the cache hit', async () => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface)
    const [first, second] = [await send({ key, body }), await send({ key, body })]
    expect({ status: second.status, bytes: second.bytes }).toEqual({ status: first.status, bytes: first.bytes })
    const own = ({ headers }: typeof first) =>
      headers.filter(([name]) => !/^(idempotent-replayed|original-request|request-id)$/i.test(name))
    expect(own(second)).toEqual(own(first))
    expect(isReplay(second)).toBe(true)
    expect(runs()).toBe(1)
  })

  test('same key + different body: 422 (or 400, per chosen flavour)', async () => {
    const { on } = await setup(database, profile)
    const { send, runs } = on(surface)
    await send({ key, body })
    const answer = await send({ key, body: '{"amount":101}' })
    expect(answer.status).toBe(profile === 'stripe' ? 400 : 422)
    expect(problemOf(answer).code).toBe('key_reused')
    expect(runs()).toBe(1)
  })
})

test.each(['/handler', '/orders'])(
  'two concurrent requests with the same key to %s: exactly one succeeds, the other gets 409',
  async (path) => {
    const { start, closeGate, atGate, openGate } = await setupServers()
    const server = await start()
    const own = crypto.randomUUID()
    // The first one stands at a pg_advisory_lock, so the second one surely comes while it is under way.
    await closeGate()
    const first = server.send({ path, key: own, body })
    await atGate(1)
    const second = await server.send({ path, key: own, body })
    expect(problemOf(second)).toEqual({ status: 409, code: 'key_in_use' })
    await openGate()
    expect((await first).status).toBe(201)
  },
)

test("worker killed mid-phase: the next retry resumes from the recovery point, and does not repeat the prior phase's side effect", async () => {
  const { start, closeGate, atGate, openGate, advance, effects } = await setupServers()
  const [victim, other] = await Promise.all([start(), start()])
  const own = crypto.randomUUID()
  await closeGate()
  const first = victim.send({ path: '/orders', key: own, body }).catch(() => 'unheard')
  // It stands in the middle of its last phase, with a row inserted and its transaction open.
  await atGate(1)
  const recoveryPoint = async () =>
    (await database.pool.query('select recovery_point from oncekey.keys where key = $1', [own])).rows[0]?.recovery_point
  expect(await recoveryPoint()).toBe('ordered')
  victim.signal('SIGKILL')
  expect(await first).toBe('unheard')
  await openGate()
  await advance(leaseMs)
  expect((await other.send({ path: '/orders', key: own, body })).status).toBe(201)
  expect(await effects(own)).toEqual([
    { what: 'finished', pid: other.pid },
    { what: 'ordered', pid: victim.pid },
  ])
})

describe('unique index on tenant and key', () => {
  test('exists, and refuses a second row', async () => {
    const { rows } = await database.pool.query(
      `select indexdef from pg_indexes where schemaname = 'oncekey' and tablename = 'keys' and indexdef like 'CREATE UNIQUE INDEX%'`,
    )
    expect(rows.map(({ indexdef }) => indexdef)).toEqual([expect.stringMatching(/\(tenant, id\)$/)])
    await postgresStore(fromPg(database.pool)).keyClaim(aClaim())
    const copy = database.pool.query('insert into oncekey.keys select * from oncekey.keys limit 1')
    await expect(copy).rejects.toMatchObject({ code: '23505' })
  })

  test('is what EXPLAIN of the claim shows, with thousands of rows', async () => {
    await database.pool.query(`
      insert into oncekey.keys (tenant, id, scope, key, state, incarnation, owner, fence, after_failure, created_at, locked_until, due_at, expires_at, reap_after)
      select 'tenant ' || n % 10, gen_random_uuid(), 's', n::text, 'processing', gen_random_uuid(), gen_random_uuid(), 1, 'rerun',
             now(), now() + interval '1 day', now(), now(), 'infinity'
      from generate_series(1, 5000) as n`)
    await database.pool.query('analyze oncekey.keys')
    const connection = fromPg(database.pool)
    const sent: { text: string; values: Parameters<Connection<never>['query']>[1] }[] = []
    const overheard: typeof connection = {
      ...connection,
      query(text, values) {
        sent.push({ text, values })
        return connection.query(text, values)
      },
    }
    const claim = aClaim({ tenant: 'tenant 1' })
    await postgresStore(overheard).keyClaim(claim)
    const upsert = sent.filter(({ text }) => text.includes('insert into'))
    expect(upsert).toHaveLength(1)
    expect(upsert[0]?.text).toMatch(/on conflict \(tenant, id\) do nothing/)
    // Both for the key that is there now, and for one that is not.
    for (const id of [upsert[0]?.values[1], crypto.randomUUID()]) {
      const values = upsert[0]?.values.map((value, index) => (index === 1 ? id : value)) as (typeof sent)[0]['values']
      const plan = (await connection.query(`explain ${upsert[0]?.text}`, values)).map((row) => row['QUERY PLAN']).join('\n')
      expect(plan).toMatch(/Index Scan using keys_pkey on keys/)
      expect(plan).toContain('Conflict Arbiter Indexes: keys_pkey')
      expect(plan).not.toContain('Seq Scan')
    }
  })
})

test('the reaper runs, and respects the retention window', async () => {
  const { handler, operation, advance, store, keys } = await setup(database, 'ietf')
  const short = handler({ retention: '1h', scope: { name: 'short' } })
  const standard = operation()
  const ledger = handler({ retention: 'forever', scope: { name: 'ledger' } })
  const parked = handler({ retention: '1h', scope: { name: 'parked' }, afterFailure: 'park' }, () => {
    throw new Error('boom')
  })
  for (const { send } of [short, standard, ledger]) await send({ key, body })
  await parked.send({ key, body }).catch(() => {})
  const reap = () => store.keyReap({ limit: 10_000 })
  await reap()
  expect(await keys()).toBe(4)
  await advance(hour)
  await reap()
  expect(await keys()).toBe(3)
  for (const { send } of [standard, ledger]) expect(isReplay(await send({ key, body }))).toBe(true)
  await advance(23 * hour)
  await reap()
  // What is kept for ever, and what a person has to look at.
  expect(await keys()).toBe(2)
  await advance(365 * 24 * hour)
  await reap()
  expect(await keys()).toBe(2)
})

test.each(['GET', 'PUT', 'DELETE'])('%s does not require the header', async (method) => {
  for (const profile of ['ietf', 'stripe'] as const) {
    const { handler, keys } = await setup(database, profile)
    const { send, runs } = handler({ required: true })
    expect((await send({ method })).status).toBe(201)
    expect(runs()).toBe(1)
    expect(await keys()).toBe(0)
  }
})

test('the docs document the status codes and the retention window', async () => {
  const page = await readFile(new URL('../../docs/guide/http.md', import.meta.url), 'utf8')
  for (const status of ['400', '409', '422']) expect(page).toMatch(new RegExp(`\\b${status}\\b`))
  expect(page).toMatch(/stripe/i)
  expect(page).toMatch(/\b24 ?(h|hours)\b/)
})
