import type pg from 'pg'
import { onTestFinished } from 'vitest'
import type { Connection } from '../../src/stores/postgres/connections/connection.js'
import { migrate } from '../../src/stores/postgres/index.js'
import { migrations } from '../../src/stores/postgres/migrations/compiled.js'
import type { Migration } from '../../src/stores/postgres/migrations/migration.js'

/** The releases before background work had these. */
export const secondRelease = migrations.slice(0, 2)

/** One row more than what is changed in one transaction. */
export const largeRows = 10_001

/** What a next release might bring, that this one can run beside. */
export const nextRelease: readonly Migration[] = [
  ...migrations,
  later(1, 'add_region', `alter table :schema.keys add column region text not null default 'eu';`),
  later(2, 'index_region', 'create index concurrently keys_region on :schema.keys (tenant, region);', 'statements'),
  later(
    3,
    'fill_region',
    `with found as (select tenant, id from :schema.keys where region = 'eu' and scope = 'old' limit 500 for no key update skip locked)
     update :schema.keys as keys set region = 'us' from found where keys.tenant = found.tenant and keys.id = found.id returning keys.id;`,
    'batches',
  ),
]

export function later(number: number, name: string, sql: string, mode?: Migration['mode']): Migration {
  return { version: migrations.length + number, name, breaking: false, sql, ...(mode ? { mode } : {}) }
}

/** A schema of the second release, with finished keys of the scope `old`, one that waits and one that is held. */
export async function fillSecondRelease<Tx>(db: Pick<pg.Pool, 'query'>, connection: Connection<Tx>, schema: string, rows = largeRows) {
  await migrate(connection, { schema }, secondRelease)
  await fill(db, schema, rows)
  await db.query(`
    ${insertOfSecondRelease(schema)} ('t', gen_random_uuid(), 'old', 'waits', 'pending', null, gen_random_uuid(), gen_random_uuid(), 1, 'rerun', now(), 'infinity', 'infinity');
    ${insertOfSecondRelease(schema)} ('t', gen_random_uuid(), 'old', 'held', 'processing', now(), gen_random_uuid(), gen_random_uuid(), 1, 'rerun', now(), 'infinity', 'infinity')`)
}

/** As a process of the second release writes a key. */
export function insertOfSecondRelease(schema: string): string {
  return `insert into ${schema}.keys
    (tenant, id, scope, key, state, locked_until, incarnation, owner, fence, after_failure, created_at, expires_at, reap_after) values`
}

/** Finished keys, in the columns of the second release and, if they are there, the later ones. */
export async function fill(db: Pick<pg.Pool, 'query'>, schema: string, rows: number): Promise<void> {
  const { rows: found } = await db.query(`select 1 from pg_attribute where attrelid = '${schema}.keys'::regclass and attname = 'due_at'`)
  const [column, value] = found.length > 0 ? [', due_at', ', now()'] : ['', '']
  await db.query(`
    insert into ${schema}.keys (tenant, id, scope, key, state, answer_status, answer_headers, answer_body, incarnation, owner, fence, after_failure,
      created_at, expires_at, reap_after${column})
    select 't', gen_random_uuid(), 'old', n::text, 'complete', 200, '[]', 'an answer', gen_random_uuid(), gen_random_uuid(), 1, 'rerun',
      now(), now() + interval '1 day', now() + interval '1 day'${value}
    from generate_series(1, ${rows}) as n`)
}

/** A connection that counts its transactions, and keeps the statements that it sends outside of them. */
export function observed<Tx>(connection: Connection<Tx>) {
  const seen = { transactions: 0, sent: [] as string[] }
  const observing: Connection<Tx> = {
    ...connection,
    transaction(work) {
      seen.transactions += 1
      return connection.transaction(work)
    },
    query(text, values, often) {
      seen.sent.push(text)
      return connection.query(text, values, often)
    },
  }
  return { seen, connection: observing }
}

/** A transaction of the service that has touched the keys, and stays open. */
export async function longTransaction(pool: pg.Pool, schema: string): Promise<{ pid: number; end(): Promise<void> }> {
  const client = await pool.connect()
  await client.query(`begin; set application_name = 'nightly report'`)
  await client.query(`update ${schema}.keys set fence = fence where id = (select id from ${schema}.keys limit 1)`)
  const { rows } = await client.query('select pg_backend_pid() as pid')
  let ended = false
  const end = async () => {
    if (ended) return
    ended = true
    await client.query('rollback')
    client.release(true)
  }
  onTestFinished(end)
  return { pid: rows[0].pid, end }
}

/** The time below which 99 of 100 stay, of calls that are made by `workers` at once until `until` says so. */
export async function p99Of(call: () => Promise<unknown>, until: () => boolean, workers = 4): Promise<{ calls: number; p99: number }> {
  const times: number[] = []
  const work = async () => {
    while (!until()) {
      const began = performance.now()
      await call()
      times.push(performance.now() - began)
    }
  }
  await Promise.all(Array.from({ length: workers }, work))
  const p99 = times.sort((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? Number.POSITIVE_INFINITY
  return { calls: times.length, p99 }
}
