import { expect, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { section } from './pages.js'

const database = useDatabase()

test('a key that is deleted as the page says is gone with its steps, no other is, and the next request runs', async () => {
  const once = createOnce({ store: postgresStore(fromPg(database.pool)) })
  const createOrder = once.operation('orders.create', {}, async (run) => {
    await run.phase('ordered', () => 1)
    return reply(201)
  })
  const send = async (key: string) => (await createOrder.run({ tenant: 'acme', key, input: null })).kind
  expect([await send('order-1'), await send('order-2')]).toEqual(['executed', 'executed'])

  const [, sql = ''] = /```sql\n(.*?)```/s.exec(section('docs/guide/faq.md', 'How do I delete a key?')) ?? []
  await database.pool.query(sql)
  const left = async (table: string) => (await database.pool.query(`select 1 from oncekey.${table}`)).rows.length
  expect([await left('keys'), await left('steps')]).toEqual([1, 1])
  expect([await send('order-1'), await send('order-2')]).toEqual(['executed', 'replayed'])
})

test('a key that is under way is not deleted so', async () => {
  const once = createOnce({ store: postgresStore(fromPg(database.pool)) })
  const [, sql = ''] = /```sql\n(.*?)```/s.exec(section('docs/guide/faq.md', 'How do I delete a key?')) ?? []
  await database.pool.query('delete from oncekey.keys')
  const request = { tenant: 'acme', scope: 'orders.create', key: 'order-1', fingerprint: false, afterFailure: 'rerun' } as const
  const outcome = await once.execute(request, async () => {
    await database.pool.query(sql)
    return reply(201)
  })
  expect(outcome).toMatchObject({ kind: 'executed', stored: true })
})
