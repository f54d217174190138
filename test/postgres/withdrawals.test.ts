import { expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.js'
import { Withdrawals } from '../../src/engine/withdrawals.js'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { aClaim, again, take } from '../../src/testing/store-cases/store-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'

const database = useDatabase()

function countingStatements() {
  const connection = fromPg(database.pool)
  const sent: string[] = []
  const query: typeof connection.query = (text, values, options) => {
    sent.push(text)
    return connection.query(text, values, options)
  }
  return { connection: { ...connection, query }, sent }
}

test.each([{}, false] as const)('withdrawals of a moment share statements, and each has its own result (batch: %s)', async (batch) => {
  const { connection, sent } = countingStatements()
  const store = postgresStore(connection, { batch })
  const claims = Array.from({ length: 300 }, () => aClaim())
  for (const claim of claims) await take(store, claim)
  const [locked, foreign] = [aClaim(), aClaim()]
  for (const claim of [locked, foreign]) await take(store, claim)
  const other = await database.pool.connect()
  await other.query('begin')
  await other.query('select from oncekey.keys where tenant = $1 for update', [locked.tenant])
  sent.length = 0
  const results = await Promise.all([...claims, locked, again(foreign)].map((claim) => store.keyWithdraw(claim)))
  await other.query('rollback')
  other.release()
  expect(results).toEqual([...claims.map(() => 'done'), 'locked', 'absent'])
  expect(sent.length).toBeLessThanOrEqual(3)
  for (const claim of claims) expect(await store.keyRead(claim)).toBeUndefined()
  expect(await store.keyRead(foreign)).toMatchObject({ state: 'processing' })
})

test('after a table was locked for longer than storeTimeout, no key of all those requests stays held', async () => {
  const once = createOnce({ store: postgresStore(fromPg(database.createPool({ max: 5 }))), storeTimeout: '1s', lease: '10m' })
  const tenant = crypto.randomUUID()
  const request = (key: string) =>
    once
      .execute({ tenant, scope: 's', key, fingerprint: false, afterFailure: 'park' }, () => reply(200))
      .then(
        ({ kind }) => kind,
        ({ code }) => code,
      )
  expect(await request('before')).toBe('executed')
  const other = await database.pool.connect()
  await other.query('begin; lock table oncekey.keys in access exclusive mode')
  const told = await Promise.all(Array.from({ length: 1_000 }, (_, count) => request(`k${count}`)))
  expect(new Set(told)).toEqual(new Set(['store_timeout']))
  await other.query('rollback')
  other.release()
  await waitUntil('nothing is held', async () => {
    const { rows } = await database.pool.query('select from oncekey.keys where tenant = $1 and state <> $2', [tenant, 'complete'])
    const claiming = await database.pool.query(`select from pg_stat_activity where wait_event_type = 'Lock'`)
    return rows.length === 0 && claiming.rows.length === 0
  })
  await once.stop()
})

test('a process has no more than 10,000 claims without an answer: each may have to be withdrawn', () => {
  const { places } = new Withdrawals(postgresStore(fromPg(database.pool)), systemClock)
  expect(Array.from({ length: 10_001 }, () => places.take()).indexOf(false)).toBe(10_000)
})
