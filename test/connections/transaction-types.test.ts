import { PGlite, type Transaction } from '@electric-sql/pglite'
import pg from 'pg'
import postgres, { type TransactionSql } from 'postgres'
import { expectTypeOf, test } from 'vitest'
import { type Connection, fromPg, fromPglite, fromPostgresJs } from '../../src/stores/postgres/index.js'

test("finds out the type of each driver's own transaction", () => {
  expectTypeOf<ReturnType<typeof ofPg>>().toEqualTypeOf<Connection<pg.PoolClient>>()
  expectTypeOf<ReturnType<typeof ofPostgresJs>>().toEqualTypeOf<Connection<TransactionSql>>()
  expectTypeOf<ReturnType<typeof ofPglite>>().toEqualTypeOf<Connection<Transaction>>()
})

const ofPg = () => fromPg(new pg.Pool())
const ofPostgresJs = () => fromPostgresJs(postgres())
const ofPglite = () => fromPglite(new PGlite())
