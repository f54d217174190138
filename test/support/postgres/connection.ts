import type pg from 'pg'
import { type Connection, fromPg } from '../../../src/stores/postgres/index.js'

const connections = new WeakMap<pg.Pool, Connection<pg.PoolClient>>()

/** The pool's connection, the same for all tests on it: statements that one of them has prepared need not be planned again for the next. */
export function connectionTo(pool: pg.Pool): Connection<pg.PoolClient> {
  const connection = connections.get(pool) ?? fromPg(pool)
  connections.set(pool, connection)
  return connection
}
