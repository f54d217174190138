import { type ExtractTablesWithRelations, eq, sql } from 'drizzle-orm'
import { drizzle as drizzleNodePostgres, type NodePgQueryResultHKT } from 'drizzle-orm/node-postgres'
import { type PgTransaction, pgTable, text } from 'drizzle-orm/pg-core'
import { drizzle as drizzlePostgresJs, type PostgresJsQueryResultHKT } from 'drizzle-orm/postgres-js'
import postgres from 'postgres'
import { afterAll, describe, expectTypeOf, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { type Connection, fromDrizzle, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { exerciseConnection, type Orm } from './scenario.js'

const orders = pgTable('orders', { id: text().primaryKey(), charge: text() })
const schema = { orders }

type Schema = typeof schema
type NodePgTx = PgTransaction<NodePgQueryResultHKT, Schema, ExtractTablesWithRelations<Schema>>
type PostgresJsTx = PgTransaction<PostgresJsQueryResultHKT, Schema, ExtractTablesWithRelations<Schema>>

describe('on node-postgres', () => {
  const database = useDatabase({ migrated: false })
  exerciseConnection<NodePgTx>(database, () => {
    const pool = database.createPool({ max: 1 })
    // Drizzle does not listen for errors of a connection that it has taken from the pool.
    pool.on('connect', (client) => client.on('error', () => {}))
    const db = drizzleNodePostgres(pool, { schema })
    return {
      connection: fromDrizzle(db, sql),
      transaction: (work) => db.transaction(work),
      insertOrder: (tx, id) => tx.insert(orders).values({ id }),
      chargeOrder: (tx, id, charge) => tx.update(orders).set({ charge }).where(eq(orders.id, id)),
    }
  })
})

describe('on postgres.js', () => {
  const database = useDatabase({ migrated: false })
  const client = postgres(database.url, { max: 1, onnotice: () => {} })
  afterAll(() => client.end())
  const open = (): Orm<PostgresJsTx> => {
    const db = drizzlePostgresJs(client, { schema })
    return {
      connection: fromDrizzle(db, sql),
      transaction: (work) => db.transaction(work),
      insertOrder: (tx, id) => tx.insert(orders).values({ id }),
      chargeOrder: (tx, id, charge) => tx.update(orders).set({ charge }).where(eq(orders.id, id)),
    }
  }
  exerciseConnection(database, open, {
    // postgres.js 3.4.9 throws where nobody can catch it: https://github.com/porsager/postgres/issues/1208
    survivesBrokenConnection: false,
    // And it rolls back whatever had a failed statement in it, unless that was in a savepoint of its own making.
    commitsAfterFailedStatement: false,
  })
})

test("a phase is typed by the user's database", () => {
  const db = drizzleNodePostgres.mock({ schema })
  expectTypeOf(fromDrizzle(db, sql)).toEqualTypeOf<Connection<NodePgTx>>()
  expectTypeOf(fromDrizzle(drizzlePostgresJs.mock({ schema }), sql)).toEqualTypeOf<Connection<PostgresJsTx>>()

  const once = createOnce({ store: postgresStore(fromDrizzle(db, sql)) })
  once.operation('orders.create', {}, async (run) => {
    const [order] = await run.phase('created', (tx) => tx.insert(orders).values({ id: '1' }).returning())
    expectTypeOf(order).toEqualTypeOf<{ id: string; charge: string | null } | undefined>()
    // @ts-expect-error: an order has no such column
    await run.phase('refused', (tx) => tx.insert(orders).values({ number: 1 }))
    const found = await run.phase('found', (tx) => tx.query.orders.findFirst())
    expectTypeOf(found).toEqualTypeOf<{ id: string; charge: string | null } | undefined>()
    return run.finish(async (tx) => {
      expectTypeOf(tx).toEqualTypeOf<NodePgTx>()
      return reply(201, order)
    })
  })
  once.local('credits.add', {}, async (tx) => {
    expectTypeOf(tx).toEqualTypeOf<NodePgTx>()
    return reply(201)
  })
})
