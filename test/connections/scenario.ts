import { beforeAll, describe, expect, test } from 'vitest'
import { createOnce, isOncekeyError, reply } from '../../src/index.js'
import { type Connection, migrate, postgresStore, type Row } from '../../src/stores/postgres/index.js'
import { exerciseStore } from '../../src/testing/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { emptyHarness } from '../support/postgres/harness.js'

/** An ORM on the test's database: our connection through it, and its own way to write to its own table. */
export interface Orm<Tx> {
  readonly connection: Connection<Tx>
  /** A transaction that the user begins, without us. */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  insertOrder(tx: Tx, id: string): PromiseLike<unknown>
  chargeOrder(tx: Tx, id: string, charge: string): PromiseLike<unknown>
}

const tenant = 'tenant'

/** Whatever breaks a statement that is put together without care. */
const awkwardSchema = `my "keys"; -- it's $1 ?? ? \\ :name`

export interface DriverLimits {
  /** False for a driver that does not survive a connection that breaks in a transaction. */
  readonly survivesBrokenConnection?: boolean
  /** False for a driver that commits no transaction in which a statement has failed, caught or not. */
  readonly commitsAfterFailedStatement?: boolean
}

/** What must hold through every ORM. Give it one connection: then nothing of ours may need a second one. */
export function exerciseConnection<Tx>(
  database: TestDatabase,
  open: () => Promise<Orm<Tx>> | Orm<Tx>,
  { survivesBrokenConnection = true, commitsAfterFailedStatement = true }: DriverLimits = {},
): void {
  let orm: Orm<Tx>
  let migrated: string[]

  beforeAll(async () => {
    orm = await open()
    migrated = await migrate(orm.connection)
    await migrate(orm.connection, { schema: awkwardSchema })
    await database.pool.query(ordersAndTroubles)
  })

  function setup() {
    const store = postgresStore(orm.connection, { audit: true })
    return { once: createOnce({ store }), store, key: crypto.randomUUID(), order: crypto.randomUUID() }
  }

  async function orders(id: string): Promise<{ id: string; charge: string | null }[]> {
    return (await database.pool.query('select id, charge from orders where id = $1', [id])).rows
  }

  test('migrates once', async () => {
    expect(migrated).toContain('create_keys')
    expect(await migrate(orm.connection)).toEqual([])
  })

  // The statements are the same as below but for the schema's name and the trail.
  if (process.env.ONCEKEY_LONG === '1') {
    describe('keeps the contract of a store', () => {
      exerciseStore({ test, setup: () => emptyHarness(orm.connection) })
    })
  }

  describe('keeps the contract of a store, with a trail and in a schema with an awkward name', () => {
    exerciseStore({ test, setup: () => emptyHarness(orm.connection, { schema: awkwardSchema, audit: true }) })
  })

  describe('a statement', () => {
    test('gives back what was sent, in the types of every other connection', async () => {
      const bytes = new Uint8Array([9, 0, 1, 255, 9]).subarray(1, 4)
      const [row] = await orm.connection.query(
        `select $1::text as text, $2::int4 as int, $3::float8 as float, $4::float8 as whole, $5::bool as bool, $6::bytea as bytes,
                $7::text as no_text, $7::float8 as no_float, $8::bytea as no_bytes, $9::smallint as small`,
        ['é\\?', -7, 1.25, 86_400_000, true, bytes, null, null, 201],
      )
      const { bytes: returned, ...others } = row as Row
      expect(returned).toBeInstanceOf(Uint8Array)
      expect([...returned]).toEqual([...bytes])
      expect(others).toEqual({
        text: 'é\\?',
        int: -7,
        float: 1.25,
        whole: 86_400_000,
        bool: true,
        no_text: null,
        no_float: null,
        no_bytes: null,
        small: 201,
      })
    })

    test('may name its parameters several times and out of order, beside quoted ones and question marks', async () => {
      const rows = await orm.connection.query(
        `select $2::int4 as "$1", $1::text || '$2 ? ?? \\?' || $1::text as "? it''s", $2::int4 + $3::int4 as sum`,
        ['a', 1, 2],
      )
      expect(rows).toEqual([{ $1: 1, "? it''s": 'a$2 ? ?? \\?a', sum: 3 }])
    })

    test('tells the first parameter from the eleventh', async () => {
      const values = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k']
      const text = `select ${values.map((_, index) => `$${values.length - index}::text`).join(' || ')} as text`
      expect(await orm.connection.query(text, values)).toEqual([{ text: 'kjihgfedcba' }])
    })

    test('returns rows without columns', async () => {
      expect(await orm.connection.query('select from (values (1), (2)) as two', [])).toHaveLength(2)
    })

    test('returns no rows if it has none', async () => {
      expect(await orm.connection.query('create temporary table if not exists nothing (id text)', [])).toEqual([])
      expect(await orm.connection.query('update orders set charge = $2 where id = $1', ['none', 'x'])).toEqual([])
    })
  })

  test("says in our words what the server said in the ORM's", async () => {
    const store = postgresStore(orm.connection, { schema: 'nowhere' })
    await expect(store.keyRead({ tenant, scope: 'orders.create', key: 'key' })).rejects.toMatchObject({ code: 'schema_missing' })
  })

  test('a transaction returns what its work returns, arrays of promises too', async () => {
    const promise = Promise.resolve(1)
    const [returned] = await orm.connection.transaction(async () => [promise])
    expect(returned).toBe(promise)
  })

  describe('an operation', () => {
    test("commits phase and finish together with the ORM's writes", async () => {
      const { once, key, order } = setup()
      const create = once.operation('orders.create', {}, async (run) => {
        const { id } = await run.phase('created', async (tx) => {
          await orm.insertOrder(tx, order)
          return { id: order }
        })
        const charge = await run.call('charged', () => ({ id: 'charge' }))
        return run.finish(async (tx) => {
          await orm.chargeOrder(tx, id, charge.id)
          await run.stage(tx, 'receipt', { id })
          return reply(201, { id })
        })
      })

      expect(await create.run({ tenant, key, input: null })).toMatchObject({ kind: 'executed', stored: true })
      expect(await orders(order)).toEqual([{ id: order, charge: 'charge' }])
      expect(await create.run({ tenant, key, input: null })).toMatchObject({ kind: 'replayed', answer: { status: 201 } })
      const history = await once.history({ tenant, scope: 'orders.create', key })
      expect(history.map(({ what }) => what)).toEqual(['claimed', 'advanced', 'complete'])
      const jobs = await database.pool.query('select name, payload from oncekey.jobs where payload like $1', [`%${order}%`])
      expect(jobs.rows).toEqual([{ name: 'receipt', payload: JSON.stringify({ id: order }) }])
    })

    test("rolls the ORM's write back with a phase that throws, and does both when it is tried again", async () => {
      const { once, store, key, order } = setup()
      const create = once.operation('orders.create', {}, async (run) => {
        await run.phase('created', async (tx) => {
          await orm.insertOrder(tx, order)
          if (run.attempt === 1) throw new Error('out of stock')
        })
        return reply(201)
      })

      await expect(create.run({ tenant, key, input: null })).rejects.toThrow('out of stock')
      expect(await orders(order)).toEqual([])
      const record = await store.keyRead({ tenant, scope: 'orders.create', key })
      expect(record).toMatchObject({ state: 'pending', recoveryPoint: null })
      expect(await create.run({ tenant, key, input: null })).toMatchObject({ kind: 'executed' })
      expect(await orders(order)).toHaveLength(1)
    })

    test("rolls the ORM's write back with a finish that throws, and goes on after the phase when it is tried again", async () => {
      const { once, key, order } = setup()
      let phases = 0
      const create = once.operation('orders.create', {}, async (run) => {
        await run.phase('created', async (tx) => {
          phases += 1
          await orm.insertOrder(tx, order)
        })
        return run.finish(async (tx) => {
          await orm.chargeOrder(tx, order, `by attempt ${run.attempt}`)
          if (run.attempt === 1) throw new Error('out of stock')
          return reply(201)
        })
      })

      await expect(create.run({ tenant, key, input: null })).rejects.toThrow('out of stock')
      expect(await orders(order)).toEqual([{ id: order, charge: null }])
      expect(await create.run({ tenant, key, input: null })).toMatchObject({ kind: 'executed' })
      expect(await orders(order)).toEqual([{ id: order, charge: 'by attempt 2' }])
      expect(phases).toBe(1)
    })

    test.each(['rollback', 'commit'])('is refused if its phase says %s, and makes the phase again', async (statement) => {
      const { once, key, order } = setup()
      const create = once.operation('orders.create', {}, async (run) => {
        await run.phase('created', async (tx) => {
          await orm.insertOrder(tx, `${order} ${run.attempt}`)
          if (run.attempt === 1) await orm.connection.within(tx).query(statement, [])
        })
        return reply(201)
      })

      await expect(create.run({ tenant, key, input: null })).rejects.toMatchObject({ code: 'transaction_ended' })
      expect(await create.run({ tenant, key, input: null })).toMatchObject({ kind: 'executed', answer: reply(201) })
      expect(await orders(`${order} 2`)).toHaveLength(1)
    })

    test("rolls the ORM's write back with a holder that was replaced", async () => {
      const { once, key, order } = setup()
      const others = createOnce({ store: postgresStore(connectionTo(database.pool)) })
      const ref = { tenant, scope: 'orders.create', key }
      const create = once.operation('orders.create', {}, async (run) => {
        await run.phase('created', async (tx) => {
          await orm.insertOrder(tx, order)
          await database.pool.query('update oncekey.keys set locked_until = clock_timestamp() where key = $1', [key])
          await others.execute({ ...ref, fingerprint: { value: null }, afterFailure: 'rerun' }, () => reply(200, 'by the next holder'))
        })
        return reply(201)
      })

      await expect(create.run({ tenant, key, input: null })).rejects.toMatchObject({ code: 'lease_lost' })
      expect(await orders(order)).toEqual([])
      expect(await create.run({ tenant, key, input: null })).toMatchObject({ kind: 'replayed', answer: { status: 200 } })
    })

    test.for([
      ["the ORM's statement collides with another transaction", 'collides at once', 'created'],
      ["the ORM's statement is the victim of a deadlock", 'deadlocks at once', 'created'],
      ['our statement collides with another transaction', 'goes well', 'collides'],
      ['the commit collides with another transaction', 'collides at commit', 'created'],
      ...(survivesBrokenConnection ? ([['the connection breaks while it commits', 'breaks at commit', 'created']] as const) : []),
    ] as const)('repeats a phase as a whole when %s', async ([, trouble, phase]) => {
      const { once, key, order } = setup()
      const id = `${trouble} ${order}`
      let tries = 0
      const create = once.operation('orders.create', {}, async (run) => {
        await run.phase(phase, async (tx) => {
          tries += 1
          await orm.insertOrder(tx, id)
        })
        return reply(201, { attempt: run.attempt })
      })

      const outcome = await create.run({ tenant, key, input: null })
      expect(outcome).toMatchObject({ kind: 'executed', answer: reply(201, { attempt: 1 }) })
      expect(tries).toBe(2)
      expect(await orders(id)).toHaveLength(1)
    })

    test('gives back what a deferred constraint refuses at the commit, as the driver threw it', async () => {
      const { once, store, key, order } = setup()
      const id = `refused at commit ${order}`
      let tries = 0
      const create = once.operation('orders.create', {}, async (run) => {
        await run.phase('created', async (tx) => {
          tries += 1
          await orm.insertOrder(tx, id)
        })
        return reply(201)
      })

      const error = await create.run({ tenant, key, input: null }).catch((thrown) => thrown)
      expect([isOncekeyError(error), store.steps.failureOf(error), tries]).toEqual([false, 'refused', 1])
      expect(await orders(id)).toEqual([])
      expect(await store.keyRead({ tenant, scope: 'orders.create', key })).toMatchObject({ state: 'pending', recoveryPoint: null })
    })

    const survivor = survivesBrokenConnection ? test : () => {}
    survivor('is resumed when the connection breaks in a phase', async () => {
      const { once, store, key, order } = setup()
      const id = `breaks at once ${order}`
      let broken: unknown
      const create = once.operation('orders.create', {}, async (run) => {
        await run.phase('created', async (tx) => {
          try {
            await orm.insertOrder(tx, id)
          } catch (error) {
            broken = error
            throw error
          }
        })
        return reply(201, { attempt: run.attempt })
      })

      await expect(create.run({ tenant, key, input: null })).rejects.toThrow()
      expect(store.steps.failureOf(broken)).toBe('connection')
      expect(await orders(id)).toEqual([])
      expect(await create.run({ tenant, key, input: null })).toMatchObject({ kind: 'executed', answer: reply(201, { attempt: 2 }) })
      expect(await orders(id)).toHaveLength(1)
    })

    test('that was parked is resolved', async () => {
      const { once, key, order } = setup()
      const create = once.operation('orders.create', {}, async (run) => {
        await run.phase('created', async (tx) => {
          await orm.insertOrder(tx, order)
        })
        const charge = await run.call('charged', (): Promise<string> => Promise.reject(new Error('no answer')), { whenUnknown: 'park' })
        return run.finish(async (tx) => {
          await orm.chargeOrder(tx, order, charge)
          return reply(201)
        })
      })

      expect(await create.run({ tenant, key, input: null })).toMatchObject({ kind: 'parked' })
      await once.resolve({ tenant, scope: 'orders.create', key }, { as: 'happened', result: 'found by hand', by: 'ann' })
      expect(await create.run({ tenant, key, input: null })).toMatchObject({ kind: 'executed' })
      expect(await orders(order)).toEqual([{ id: order, charge: 'found by hand' }])
    })
  })

  describe('local work', () => {
    test("commits together with the ORM's write", async () => {
      const { once, key, order } = setup()
      const credit = once.local('credits.add', {}, async (tx) => {
        await orm.insertOrder(tx, order)
        return reply(201, { order })
      })

      expect(await credit.run({ tenant, key, input: null })).toMatchObject({ kind: 'executed' })
      expect(await orders(order)).toHaveLength(1)
      expect(await credit.run({ tenant, key, input: null })).toMatchObject({ kind: 'replayed', answer: { status: 201 } })
    })

    test('is refused if it rolls its transaction back', async () => {
      const { once, store, key, order } = setup()
      const credit = once.local('credits.add', {}, async (tx) => {
        await orm.insertOrder(tx, order)
        await orm.connection.within(tx).query('rollback', [])
        return reply(201)
      })

      await expect(credit.run({ tenant, key, input: null })).rejects.toMatchObject({ code: 'transaction_ended' })
      expect(await orders(order)).toEqual([])
      expect(await store.keyRead({ tenant, scope: 'credits.add', key })).toBeUndefined()
    })

    test("takes the ORM's write and the key back when it throws", async () => {
      const { once, store, key, order } = setup()
      const credit = once.local('credits.add', {}, async (tx) => {
        await orm.insertOrder(tx, order)
        throw new Error('out of stock')
      })

      await expect(credit.run({ tenant, key, input: null })).rejects.toThrow('out of stock')
      expect(await orders(order)).toEqual([])
      expect(await store.keyRead({ tenant, scope: 'credits.add', key })).toBeUndefined()
    })
  })

  describe("work in the user's own transaction", () => {
    test('is done once', async () => {
      const { once, key, order } = setup()
      const ref = { tenant, scope: 'inbox', key }
      const consume = () =>
        orm.transaction((tx) =>
          once.within(tx, ref, async () => {
            await orm.insertOrder(tx, order)
          }),
        )

      expect(await consume()).toMatchObject({ kind: 'executed' })
      expect(await orders(order)).toHaveLength(1)
      expect(await consume()).toMatchObject({ kind: 'replayed', answer: { status: 204 } })
    })

    test('is undone with its key when the user rolls back', async () => {
      const { once, store, key, order } = setup()
      const ref = { tenant, scope: 'inbox', key }
      const consume = orm.transaction(async (tx) => {
        await once.within(tx, ref, async () => {
          await orm.insertOrder(tx, order)
        })
        throw new Error('the user changes their mind')
      })

      await expect(consume).rejects.toThrow('changes their mind')
      expect(await orders(order)).toEqual([])
      expect(await store.keyRead(ref)).toBeUndefined()
    })

    test.for([
      ['it throws', async () => Promise.reject(new Error('out of stock'))],
      // Twice the same order: without a savepoint the database would refuse everything after it.
      ...(commitsAfterFailedStatement
        ? ([['a statement of it fails', (tx: Tx, order: string) => orm.insertOrder(tx, order)]] as const)
        : []),
    ] as const)('is undone by itself when %s and the user goes on', async ([, fail]) => {
      const { once, store, key, order } = setup()
      const ref = { tenant, scope: 'inbox', key }
      await orm.transaction(async (tx) => {
        await orm.insertOrder(tx, `before ${order}`)
        const consume = once.within(tx, ref, async () => {
          await orm.insertOrder(tx, order)
          await fail(tx, order)
        })
        await expect(consume).rejects.toThrow()
        await orm.insertOrder(tx, `after ${order}`)
      })

      expect(await orders(order)).toEqual([])
      expect(await store.keyRead(ref)).toBeUndefined()
      expect(await orders(`before ${order}`)).toHaveLength(1)
      expect(await orders(`after ${order}`)).toHaveLength(1)
    })
  })
}

/** A sequence does not roll back: the first time there is trouble, the second time there is none. */
const ordersAndTroubles = `
  create table orders (id text primary key, charge text);
  create sequence troubles;
  create function trouble() returns trigger language plpgsql as $$
  begin
    if nextval('troubles') % 2 = 0 then return null; end if;
    if tg_argv[0] <> 'break' then raise exception 'trouble' using errcode = tg_argv[0]; end if;
    perform pg_terminate_backend(pg_backend_pid());
    perform pg_sleep(60);
    return null;
  end $$;
  create function refuse() returns trigger language plpgsql as $$
  begin
    raise exception 'refused' using errcode = 'check_violation';
  end $$;
  create trigger collide after insert on orders for each row
    when (new.id like 'collides at once%') execute function trouble('40001');
  create trigger deadlock after insert on orders for each row
    when (new.id like 'deadlocks at once%') execute function trouble('40P01');
  create trigger break after insert on orders for each row
    when (new.id like 'breaks at once%') execute function trouble('break');
  create constraint trigger collide_late after insert on orders deferrable initially deferred for each row
    when (new.id like 'collides at commit%') execute function trouble('40001');
  create constraint trigger break_late after insert on orders deferrable initially deferred for each row
    when (new.id like 'breaks at commit%') execute function trouble('break');
  create constraint trigger refuse_late after insert on orders deferrable initially deferred for each row
    when (new.id like 'refused at commit%') execute function refuse();
  create trigger collide after insert on oncekey.steps for each row
    when (new.name = 'collides') execute function trouble('40001');`
