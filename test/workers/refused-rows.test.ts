// A trigger of the user's that refuses one row: all other rows are written, and the error is reported.
import { expect, onTestFinished, test } from 'vitest'
import { fromPg, postgresOperator, postgresStore } from '../../src/stores/postgres/index.js'
import { aClaim, take } from '../../src/testing/store-cases/store-case.js'
import { reaper, sweeper } from '../../src/workers/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { leaseMs, setup } from './setup.js'

const database = useDatabase()
const day = 24 * 3_600_000

/** Refuses each change of keys with this name. */
async function refuse(key: string) {
  await database.pool.query(`
    create function refuse_key() returns trigger language plpgsql as $$ begin raise exception 'this one stays'; end $$;
    create trigger refuse_key before update on oncekey.keys for each row when (old.key = '${key}') execute function refuse_key()`)
  const allow = () => database.pool.query('drop function if exists refuse_key cascade')
  onTestFinished(async () => void (await allow()))
  return allow
}

test('the sweeper takes back all other keys of the page, and that one once it may', async () => {
  const { once, abandon, advance, eventsOf, record } = await setup(database)
  for (let number = 0; number < 20; number += 1) await abandon(`key-${number}`)
  await advance(leaseMs + 1)
  const allow = await refuse('key-7')
  const service = sweeper(once)
  expect(await service.runOnce()).toEqual({ pending: 19, failed: 0, parked: 0 })
  expect((await record('key-7'))?.state).toBe('processing')
  expect(eventsOf('worker-failed')).toMatchObject([
    { worker: 'sweeper', error: { code: 'store_failed', cause: { message: 'this one stays' } } },
  ])
  await allow()
  expect(await service.runOnce()).toEqual({ pending: 1, failed: 0, parked: 0 })
})

test('an operator takes back all other keys, and is told if there is no other', async () => {
  const { tenant, abandon, advance } = await setup(database)
  for (let number = 0; number < 5; number += 1) await abandon(`key-${number}`)
  await advance(leaseMs + 1)
  await refuse('key-3')
  const operator = postgresOperator(fromPg(database.pool))
  const taken = await operator.keysTakeBack({ note: 'a test' })
  expect(taken.filter((key) => key.tenant === tenant)).toHaveLength(4)
  await expect(operator.keysTakeBack({ note: 'a test' })).rejects.toMatchObject({ code: 'store_failed' })
})

test('the reaper ends all other keys that waited for too long, also when there is room for few', async () => {
  const { once, tenant, advance, eventsOf } = await setup(database)
  const store = postgresStore(fromPg(database.pool))
  for (let number = 0; number < 10; number += 1) {
    await store.keyEnqueue(aClaim({ tenant, scope: 'pay', key: `key-${number}`, request: new Uint8Array([1]) }))
  }
  await advance(400 * day)
  await refuse('key-0')
  expect(await reaper(once, { batch: 1 }).runOnce()).toMatchObject({ timedOut: 9 })
  expect(eventsOf('worker-failed')).toMatchObject([{ worker: 'reaper', error: { code: 'store_failed' } }])
})

test('a heartbeat renews all other leases, and says why if there is no other', async () => {
  const store = postgresStore(fromPg(database.pool))
  const tenant = crypto.randomUUID()
  const held = []
  for (let number = 0; number < 10; number += 1) held.push(await take(store, aClaim({ tenant, key: `key-${number}` })))
  const leases = held.map(({ lease }) => ({ ...lease, leaseMs }))
  await refuse('key-4')
  const expected = leases.map((_, number) => (number === 4 ? 'busy' : 'renewed'))
  expect(await store.keyHeartbeat({ leases })).toEqual(expected)
  await expect(store.keyHeartbeat({ leases: leases.slice(4, 5) })).rejects.toMatchObject({ code: 'store_failed' })
})
