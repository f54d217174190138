import { CamelCasePlugin, Kysely, PostgresDialect, type Transaction } from 'kysely'
import { beforeAll, describe, expectTypeOf, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { type Connection, fromKysely, postgresStore } from '../../src/stores/postgres/index.js'
import { exerciseStore } from '../../src/testing/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { emptyHarness } from '../support/postgres/harness.js'
import { exerciseConnection, type Orm } from './scenario.js'

interface Tables {
  orders: { id: string; charge: string | null }
}

const database = useDatabase({ migrated: false })

/** Kysely does not listen for errors of a connection that it has taken from the pool. */
function openKysely(max: number): Kysely<Tables> {
  const pool = database.createPool({ max })
  pool.on('connect', (client) => client.on('error', () => {}))
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
}

exerciseConnection(database, (): Orm<Transaction<Tables>> => {
  const db = openKysely(1)
  return {
    connection: fromKysely(db),
    transaction: (work) => db.transaction().execute(work),
    insertOrder: (tx, id) => tx.insertInto('orders').values({ id }).execute(),
    chargeOrder: (tx, id, charge) => tx.updateTable('orders').set({ charge }).where('id', '=', id).execute(),
  }
})

describe('with a plugin that renames columns', () => {
  let db: Kysely<Tables>
  beforeAll(() => {
    db = openKysely(10).withPlugin(new CamelCasePlugin())
  })
  exerciseStore({ test, setup: () => emptyHarness(fromKysely(db)) })
})

test("a phase is typed by the user's tables", () => {
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: async () => database.pool }) })
  expectTypeOf(fromKysely(db)).toEqualTypeOf<Connection<Transaction<Tables>>>()

  const once = createOnce({ store: postgresStore(fromKysely(db)) })
  once.operation('orders.create', {}, async (run) => {
    const order = await run.phase('created', (tx) => tx.insertInto('orders').values({ id: '1' }).returningAll().executeTakeFirstOrThrow())
    expectTypeOf(order).toEqualTypeOf<{ id: string; charge: string | null }>()
    // @ts-expect-error: there is no such table
    await run.phase('refused', (tx) => tx.insertInto('customers').values({ id: '1' }).execute())
    return run.finish(async (tx) => {
      expectTypeOf(tx).toEqualTypeOf<Transaction<Tables>>()
      return reply(201, order)
    })
  })
  once.local('credits.add', {}, async (tx) => {
    expectTypeOf(tx).toEqualTypeOf<Transaction<Tables>>()
    return reply(201)
  })
})
