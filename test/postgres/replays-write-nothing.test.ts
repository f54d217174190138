import { expect, test } from 'vitest'
import type { Connection, Row } from '../../src/stores/postgres/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { aClaim, aFinish, again, take } from '../../src/testing/store-cases/store-case.js'
import { useDatabase } from '../support/postgres/database.js'

const database = useDatabase()

/** Runs every statement under EXPLAIN (ANALYZE, WAL) as well, and keeps the plans. */
function explaining<Tx>(connection: Connection<Tx>) {
  const plans: Row[] = []
  const explained: Connection<Tx> = {
    ...connection,
    async query(text, values) {
      const [row] = await connection.query(`explain (analyze, wal, format json) ${text}`, values)
      plans.push((row as Row)['QUERY PLAN'][0].Plan)
      return connection.query(text, values)
    },
  }
  return { explained, plans }
}

async function aFinishedKey() {
  const store = postgresStore(fromPg(database.pool))
  const claim = aClaim()
  await store.keyFinish(aFinish(await take(store, claim)))
  // The first read of a new row may set hint bits, which is a write of its own.
  await store.keyClaim(again(claim))
  return { store, claim }
}

test('writes no WAL for a replay', async () => {
  const { claim } = await aFinishedKey()
  const { explained, plans } = explaining(fromPg(database.pool))
  const store = postgresStore(explained)
  expect((await store.keyClaim(again(claim))).kind).toBe('replay')
  const plan = plans.at(-1) as Row
  expect({ records: plan['WAL Records'], bytes: plan['WAL Bytes'] }).toEqual({ records: 0, bytes: 0 })

  // The same figures for a claim that does write, so that a zero above means something.
  await explained.query('select 1 as warm', [])
  const before = plans.length
  const fresh = await store.keyClaim(aClaim())
  expect(plans.length).toBe(before + 1)
  expect(fresh.kind).not.toBe('replay')
  expect((plans.at(-1) as Row)['WAL Records']).toBeGreaterThan(0)
})

test('writes nothing for a key that is in progress, however often it is asked for', async () => {
  const store = postgresStore(fromPg(database.pool))
  const claim = aClaim()
  await take(store, claim)
  const waiting = again(claim)
  await store.keyClaim(waiting)
  const { explained, plans } = explaining(fromPg(database.pool))
  const observed = postgresStore(explained)
  await observed.keyRead(claim)
  plans.length = 0
  for (let ask = 0; ask < 10; ask += 1) expect((await observed.keyClaim(waiting)).kind).toBe('in-progress')
  expect(plans.map((plan) => plan['WAL Records'])).toEqual(Array.from({ length: 10 }, () => 0))
})

test('leaves no dead tuple and no new version of the row after a thousand replays', async () => {
  const { store, claim } = await aFinishedKey()
  const version = async () => {
    const { rows } = await database.pool.query('select ctid::text, xmin::text, xmax::text from oncekey.keys where tenant = $1', [
      claim.tenant,
    ])
    return rows
  }
  const before = await version()
  for (let replay = 0; replay < 1_000; replay += 1) {
    const { kind } = await store.keyClaim(again(claim))
    expect(kind).toBe('replay')
  }
  expect(await version()).toEqual(before)
})

test('is one statement for a replay and one for a new key', async () => {
  const { claim } = await aFinishedKey()
  const texts: string[] = []
  const connection = fromPg(database.pool)
  const counting = {
    ...connection,
    query: (text: string, values: Parameters<typeof connection.query>[1]) => {
      texts.push(text)
      return connection.query(text, values)
    },
  }
  const store = postgresStore(counting)
  await store.keyRead(claim)
  texts.length = 0
  await store.keyClaim(again(claim))
  expect(texts).toHaveLength(1)
  await store.keyClaim(aClaim())
  expect(texts).toHaveLength(2)
})

test('an enqueue is one statement, and a repeated one writes nothing', async () => {
  const { explained, plans } = explaining(fromPg(database.pool))
  const store = postgresStore(explained)
  const claim = aClaim()
  await store.keyRead(claim)
  plans.length = 0
  // Each statement is run twice here: by EXPLAIN, and then for its rows.
  expect((await store.keyEnqueue(claim)).kind).toBe('enqueued')
  await fromPg(database.pool).query('select * from oncekey.keys where tenant = $1', [claim.tenant])
  expect((await store.keyEnqueue(again(claim))).kind).toBe('in-progress')
  expect(plans.map((plan) => Number(plan['WAL Records']) > 0)).toEqual([true, false])
})

test('an enqueued key is in the index of those that wait, due at once, and reaped no earlier than others', async () => {
  const store = postgresStore(fromPg(database.pool))
  const claim = aClaim()
  await store.keyEnqueue(claim)
  const { rows } = await database.pool.query(
    `select waiting, locked_until, due_at <= clock_timestamp() and due_at = created_at as due,
            extract(epoch from reap_after - created_at)::integer as reaped_after
     from oncekey.keys where tenant = $1`,
    [claim.tenant],
  )
  expect(rows).toEqual([{ waiting: true, locked_until: null, due: true, reaped_after: 24 * 3_600 }])
})

test('finds the key by its primary key, also in a table that has never been analysed', async () => {
  const { explained, plans } = explaining(fromPg(database.pool))
  await database.pool.query(`
    insert into oncekey.keys (tenant, id, scope, key, state, incarnation, owner, fence, after_failure, created_at, locked_until, due_at, expires_at, reap_after)
    select 'many', gen_random_uuid(), 's', n::text, 'processing', gen_random_uuid(), gen_random_uuid(), 1, 'rerun', now(), now(), now(), now(), now()
    from generate_series(1, 20000) as n`)
  await postgresStore(explained).keyClaim(aClaim())
  const plan = JSON.stringify(plans.at(-1))
  expect(plan).toContain('keys_pkey')
  expect(plan).not.toContain('Seq Scan')
})
