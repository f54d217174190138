// An ORM's nested transactions are other objects, on the same transaction: withins beside each other must not lose what one of them wrote.
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import postgres from 'postgres'
import { afterAll, describe, expect, test } from 'vitest'
import { createOnce } from '../../src/index.js'
import { type Connection, fromDrizzle, fromPostgresJs, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'

const database = useDatabase()

/** What a driver with nested transactions is to these tests. */
interface Nesting<Tx> {
  readonly connection: Connection<Tx>
  transaction(work: (tx: Tx) => Promise<unknown>): Promise<unknown>
  nested(tx: Tx, work: (tx: Tx) => Promise<unknown>): Promise<unknown>
}

const tenant = 'nested'

function exerciseNesting<Tx>({ connection, transaction, nested }: Nesting<Tx>) {
  const once = createOnce({ store: postgresStore(connection) })

  async function setup() {
    await database.ensure('create table if not exists nested (id text primary key)')
    const prefix = crypto.randomUUID()
    const insert = (tx: Tx, name: string) => connection.within(tx).query('insert into nested values ($1)', [`${prefix} ${name}`])
    const take = (tx: Tx, name: string, work: () => Promise<unknown> = async () => {}) =>
      once.within(tx, { tenant, scope: 'inbox', key: `${prefix} ${name}` }, async () => {
        await insert(tx, name)
        await work()
        await insert(tx, `${name} again`)
      })
    /** The rows, and the keys. */
    const left = async () => {
      const { rows } = await database.pool.query(
        `select (select coalesce(array_agg(id order by id), '{}') from nested where starts_with(id, $1)) as rows,
          (select coalesce(array_agg(key order by key), '{}') from oncekey.keys where tenant = $2 and starts_with(key, $1)) as keys`,
        [prefix, tenant],
      )
      const short = (names: string[]) => names.map((name) => name.slice(prefix.length + 1))
      return { rows: short(rows[0].rows), keys: short(rows[0].keys) }
    }
    return { take, left }
  }

  const fails = () => Promise.reject(new Error('no'))

  test.each([
    ['at once', (begun: Promise<void>) => Promise.race([begun, Promise.resolve()])],
    ['while the first writes', (begun: Promise<void>) => begun],
  ])('of two beside each other, the second begun %s, none is executed and lost', async (_, when) => {
    const { take, left } = await setup()
    let told: string[] = []
    const committed = await transaction(async (tx) => {
      let isBegun = () => {}
      let isMet = () => {}
      const begun = new Promise<void>((resolve) => (isBegun = resolve))
      const met = new Promise<void>((resolve) => (isMet = resolve))
      const first = nested(tx, (one) =>
        take(one, 'a', () => {
          isBegun()
          return met
        }),
      )
      const second = when(begun).then(() => nested(tx, (other) => take(other, 'b', fails).finally(isMet)))
      const ends = await Promise.allSettled([first, second])
      told = ends.map((end) => (end.status === 'fulfilled' ? 'executed' : (end.reason.code ?? end.reason.message)))
    }).then(
      () => true,
      () => false,
    )
    const { rows, keys } = await left()
    if (committed && told[0] === 'executed') expect({ rows, keys }).toEqual({ rows: ['a', 'a again'], keys: ['a'] })
    else expect([told[0], rows, keys]).toEqual(['steps_overlap', [], []])
    expect(told[1]).toBe('steps_overlap')
  })

  test('in order, and one inside the other, all is as with one object', async () => {
    const { take, left } = await setup()
    await transaction(async (tx) => {
      await nested(tx, (one) => take(one, 'a', () => nested(one, (inner) => take(inner, 'a1'))))
      await expect(nested(tx, (other) => take(other, 'b', fails))).rejects.toThrow('no')
      await take(tx, 'c', () => nested(tx, (inner) => take(inner, 'c1', fails)).catch(() => {}))
    })
    expect(await left()).toEqual({ rows: ['a', 'a again', 'a1', 'a1 again', 'c', 'c again'], keys: ['a', 'a1', 'c'] })
  })
}

describe('Drizzle on node-postgres', () => {
  const pool = database.createPool({ max: 1 })
  const db = drizzle(pool)
  exerciseNesting({
    connection: fromDrizzle(db, sql),
    transaction: (work) => db.transaction(work),
    nested: (tx, work) => tx.transaction((nested) => work(nested as typeof tx)),
  })
})

describe('postgres.js', () => {
  const client = postgres(database.url, { max: 1, onnotice: () => {} })
  afterAll(() => client.end())
  type Tx = postgres.TransactionSql
  exerciseNesting<Tx>({
    connection: fromPostgresJs(client),
    transaction: (work) => client.begin(work),
    nested: (tx, work) => tx.savepoint((nested) => work(nested)),
  })
})
