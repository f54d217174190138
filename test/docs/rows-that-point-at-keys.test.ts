// The page's tables, with the real reaper: what becomes of an order when its key is deleted.
import { randomBytes } from 'node:crypto'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { reaper } from '../../src/workers/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { section } from './pages.js'

const page = 'docs/guide/rows-that-point-at-keys.md'
const sqlOf = (heading: string) => /```sql\n(.*?)```/s.exec(section(page, heading))?.[1] as string
const withForeignKey = sqlOf('A foreign key')

const database = useDatabase()
// One connection, so that it can be asked what it has read.
const pool = database.createPool({ max: 1 })
const store = postgresStore(fromPg(pool))

/** A fresh table, and an operation that makes an order and notes its key. */
async function setup(tables: string, columns: 'made_by' | 'key_tenant, key_id') {
  await pool.query(`drop table if exists orders; delete from oncekey.keys; ${tables}`)
  const once = createOnce({ store })
  const createOrder = once.operation('orders.create', {}, async (run) => {
    const values = columns === 'made_by' ? [run.incarnation] : [run.tenant, run.id]
    await run.phase('order_created', async (tx) => {
      const places = values.map((_, index) => `$${index + 1}`)
      await tx.query(`insert into orders (tenant, item, ${columns}) values ('acme', 'tea', ${places.join(', ')})`, values)
    })
    return reply(201)
  })
  const order = (key: string) => createOrder.run({ tenant: 'acme', key, input: null })
  const expire = () => pool.query(`update oncekey.keys set expires_at = now() - interval '1 s', reap_after = now() - interval '1 s'`)
  const reap = () => reaper(once).runOnce()
  const count = async (table: string) => Number((await pool.query(`select count(*) from ${table}`)).rows[0].count)
  return { once, order, expire, reap, count }
}

test('a plain column outlives the key, and is another one in its next life', async () => {
  const { order, expire, reap, count } = await setup(sqlOf('A plain column'), 'made_by')
  expect((await order('k')).kind).toBe('executed')
  await expire()
  expect((await order('k')).kind).toBe('executed')
  await expire()
  expect(await reap()).toMatchObject({ reaped: 1 })
  expect((await pool.query('select made_by from orders where made_by is not null')).rows).toHaveLength(2)
  expect(await count('oncekey.keys')).toBe(0)
})

describe('a foreign key', () => {
  const other = (onDelete: string) => withForeignKey.replace(' on delete set null', onDelete)

  test('with "on delete set null" lets the key go, and the order stays', async () => {
    const { order, expire, reap } = await setup(withForeignKey, 'key_tenant, key_id')
    await order('k')
    expect((await pool.query('select key_id from orders')).rows).toEqual([{ key_id: expect.any(String) }])
    await expire()
    expect(await reap()).toMatchObject({ reaped: 1 })
    expect((await pool.query('select tenant, item, key_tenant, key_id from orders')).rows).toEqual([
      { tenant: 'acme', item: 'tea', key_tenant: null, key_id: null },
    ])
  })

  test('without "on delete" keeps its key, which the reaper reports, until it is mended as the page says', async () => {
    const { once, order, expire, count } = await setup(other(''), 'key_tenant, key_id')
    const failures: unknown[] = []
    const listening = createOnce({ store, onEvent: (event) => event.type === 'worker-failed' && failures.push(event.error) })
    const reap = () => reaper(listening).runOnce()
    await order('k')
    await once.execute({ tenant: 'acme', scope: 's', key: 'free', fingerprint: false, afterFailure: 'rerun' }, () => reply(201))
    await expire()
    expect(await reap()).toMatchObject({ reaped: 1 })
    expect(failures).toMatchObject([{ code: 'store_failed', cause: { code: '23503', constraint: 'orders_key_tenant_key_id_fkey' } }])
    expect([await count('oncekey.keys'), await count('orders')]).toEqual([1, 1])

    await pool.query('drop index orders_key')
    // One by one: an index cannot be made concurrently in a transaction.
    for (const statement of sqlOf('Mending a foreign key that is there already').split(';')) await pool.query(statement)
    // An hour later.
    await expire()
    expect(await reap()).toMatchObject({ reaped: 1 })
    expect(await count('orders')).toBe(1)
  })

  test('with "on delete cascade" takes the order along', async () => {
    const { order, expire, reap, count } = await setup(other(' on delete cascade'), 'key_tenant, key_id')
    await order('k')
    await expire()
    await reap()
    expect(await count('orders')).toBe(0)
  })

  test('still points at a key that was used again', async () => {
    const { order, expire } = await setup(withForeignKey, 'key_tenant, key_id')
    await order('k')
    await expire()
    await order('k')
    const { rows } = await pool.query('select count(*)::integer as orders, count(distinct key_id)::integer as keys from orders')
    expect(rows).toEqual([{ orders: 2, keys: 1 }])
  })

  test('takes no lock that a heartbeat would wait for', async () => {
    const { once } = await setup(withForeignKey, 'key_tenant, key_id')
    const other = await database.pool.connect()
    onTestFinished(() => other.release())
    const order = once.operation('orders.locked', {}, async (run) => {
      await run.phase('ordered', async (tx) => {
        await tx.query(`insert into orders (tenant, item, key_tenant, key_id) values ('acme', 'tea', $1, $2)`, [run.tenant, run.id])
        const renew = `update oncekey.keys set locked_until = locked_until + interval '1 s' where tenant = $1 and id = $2`
        await other.query(`set lock_timeout = '1s'`)
        expect((await other.query(renew, [run.tenant, run.id])).rowCount).toBe(1)
        await other.query('reset lock_timeout')
      })
      return reply(201)
    })
    expect((await order.run({ tenant: 'acme', key: 'k', input: null })).kind).toBe('executed')
  })

  test('needs a right for its maker, and none for the service', async () => {
    const { expire } = await setup(withForeignKey, 'key_tenant, key_id')
    const role = `orders_app_${randomBytes(6).toString('hex')}`
    const [, grants = ''] = /```sql\n(.*?)```/s.exec(section('docs/guide/postgres.md', 'Least privilege')) ?? []
    await pool.query(`create role ${role} login; ${grants.replaceAll('orders_app', role)} grant select, insert on orders to ${role}`)
    const url = new URL(database.url)
    url.username = role
    const service = database.createPool({ connectionString: url.href })
    onTestFinished(async () => {
      await service.end()
      await pool.query(`drop owned by ${role}; drop role ${role}`)
    })
    const once = createOnce({ store: postgresStore(fromPg(service)) })
    const order = once.operation('orders.create', {}, async (run) => {
      await run.phase('ordered', async (tx) => {
        await tx.query(`insert into orders (tenant, item, key_tenant, key_id) values ('acme', 'tea', $1, $2)`, [run.tenant, run.id])
      })
      return reply(201)
    })
    expect((await order.run({ tenant: 'acme', key: 'k', input: null })).kind).toBe('executed')
    await expire()
    expect(await reaper(once).runOnce()).toMatchObject({ reaped: 1 })
    expect((await pool.query('select key_id from orders')).rows).toEqual([{ key_id: null }])

    await pool.query(`create schema authorization ${role}`)
    const make = withForeignKey.replaceAll(/\borders\b/g, `${role}.orders`)
    await expect(service.query(make)).rejects.toMatchObject({ code: '42501' })
    await pool.query(`grant references on oncekey.keys to ${role}`)
    await service.query(make)
  })

  /** How often the whole table is read while 20 keys are reaped, of 5,000 orders. */
  async function wholeReads(tables: string): Promise<number> {
    const { order, expire, reap } = await setup(tables, 'key_tenant, key_id')
    await Promise.all(Array.from({ length: 20 }, (_, number) => order(`k-${number}`)))
    await pool.query(`insert into orders (tenant, item) select 'acme', 'tea' from generate_series(1, 5000)`)
    await pool.query('analyze orders')
    await expire()
    const reads = async () => {
      await pool.query('select pg_stat_force_next_flush()')
      const { rows } = await pool.query(`select seq_scan::integer as reads from pg_stat_user_tables where relname = 'orders'`)
      return rows[0].reads as number
    }
    const before = await reads()
    expect(await reap()).toMatchObject({ reaped: 20 })
    return (await reads()) - before
  }

  test('is looked up by its index, and without one by reading all orders for each key', async () => {
    expect(await wholeReads(withForeignKey)).toBe(0)
    expect(await wholeReads(withForeignKey.replace(/create index.*/s, ''))).toBe(20)
  })
})
