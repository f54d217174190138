import type pg from 'pg'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.js'
import { createOnce, isOncekeyError, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import { useDatabase } from '../support/postgres/database.js'
import { setup } from './setup.js'

const database = useDatabase()

test('1,400 runs on a few hot rows at SERIALIZABLE, 64 at once, get through or say that they may be tried again', async () => {
  const { tenant } = await setup(database)
  await database.pool.query(
    'create table counters (id int primary key, n int); insert into counters select id, 0 from generate_series(0, 7) id',
  )
  const pool = database.createPool({ max: 20, options: '-c default_transaction_isolation=serializable' })
  const once = createOnce({ store: postgresStore(fromPg(pool)), storeTimeout: '60s' })
  const count = once.local('count', {}, async (tx, id) => {
    await tx.query('update counters set n = n + 1 where id = $1', [id])
    return reply(201)
  })
  const failures: unknown[] = []
  let next = 0
  async function client(): Promise<void> {
    for (let run = next++; run < 1_400; run = next++) {
      await count.run({ tenant, key: `${run}`, input: run % 8 }).catch((error) => failures.push(error))
    }
  }
  await Promise.all(Array.from({ length: 64 }, client))
  expect(failures.filter((error) => !isOncekeyError(error, 'store_conflict'))).toEqual([])
  const { rows } = await database.pool.query('select sum(n)::int as done from counters')
  expect(rows).toEqual([{ done: 1_400 - failures.length }])
})

/** A service whose waits take no time and are noted, with the longest that jitter allows. */
async function hurried() {
  const bundle = await setup(database)
  const waits: number[] = []
  const once = createOnce<pg.PoolClient>({
    store: postgresStore(connectionTo(database.pool)),
    onEvent: ({ type }) => void bundle.events.push(type),
    random: { uuid: () => crypto.randomUUID(), fraction: () => 0.9999 },
    clock: {
      ...systemClock,
      schedule(task, delayMs, options) {
        if (delayMs > 1_000) return systemClock.schedule(task, delayMs, options)
        waits.push(Math.round(delayMs))
        return systemClock.schedule(task, 0, options)
      },
    },
  })
  return { ...bundle, once, waits }
}

test('all tries of a transaction together end at maxRun', async () => {
  const { tenant, key } = await setup(database)
  const once = createOnce({ store: postgresStore(fromPg(database.pool)), maxRun: '300ms', storeTimeout: '100ms' })
  let tries = 0
  const work = async (tx: pg.PoolClient) => {
    tries += 1
    await tx.query('select pg_sleep(0.15)')
    await collide(tx, '40001')
    return reply(201)
  }
  const local = once.local('local', {}, work)
  await expect(local.run({ tenant, key: 'k', input: null })).rejects.toMatchObject({ code: 'max_run_exceeded' })
  expect([tries < 5, await key('k')]).toEqual([true, undefined])
})

const waitedBetween20Tries = [10, 20, 40, 80, 160, ...Array(14).fill(200)]

const collide = (tx: pg.PoolClient, state: string) => tx.query(`do $$ begin raise exception 'collides' using errcode = '${state}'; end $$`)

test.each(['40001', '40P01'])(
  'a transaction that loses 20 times waits longer each time, and says that it may be tried again (%s)',
  async (state) => {
    const { once, tenant, key, events, waits, insert, things } = await hurried()
    const id = crypto.randomUUID()
    let tries = 0
    const work = async (tx: pg.PoolClient) => {
      tries += 1
      await insert(tx, id)
      await collide(tx, state)
    }
    const request = { tenant, key: 'k', input: null }
    const conflict = { code: 'store_conflict', status: 503, cause: { code: state }, message: expect.stringContaining('collides') }

    const local = once.local('local', {}, async (tx) => work(tx).then(() => reply(201)))
    await expect(local.run(request)).rejects.toMatchObject(conflict)
    expect([tries, waits, await key('k'), events]).toEqual([20, waitedBetween20Tries, undefined, ['executing', 'released']])

    for (const step of ['phase', 'finish'] as const) {
      tries = waits.length = 0
      // An error that the store may get over is not stored.
      const operation = once.operation(step, { storeErrors: true }, async (run) => {
        if (step === 'phase') await run.phase('collides', work)
        return run.finish((tx) => work(tx).then(() => reply(201)))
      })
      await expect(operation.run({ ...request, key: step })).rejects.toMatchObject(conflict)
      expect([tries, waits, (await key(step)).state]).toEqual([20, waitedBetween20Tries, 'pending'])
    }
    expect(await things()).not.toContain(id)
  },
)

test('a transaction that loses at the commit waits and is tried again, too', async () => {
  const { once, tenant, waits } = await hurried()
  await database.pool.query(`
    create table late (id text);
    create sequence losses;
    create function lose() returns trigger language plpgsql as $$
    begin
      if nextval('losses') < 4 then raise exception 'loses' using errcode = '40001'; end if;
      return null;
    end $$;
    create constraint trigger lose after insert on late deferrable initially deferred for each row execute function lose();`)
  const local = once.local('late', {}, async (tx) => {
    await tx.query(`insert into late values ('once')`)
    return reply(201)
  })
  expect((await local.run({ tenant, key: 'k', input: null })).kind).toBe('executed')
  expect(waits).toEqual([10, 20, 40])
  expect((await database.pool.query('select id from late')).rows).toEqual([{ id: 'once' }])
})
