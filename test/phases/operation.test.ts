import { expect, test } from 'vitest'
import { bodyOf, createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'

const database = useDatabase()

test('smoke', async () => {
  await database.pool.query('create table orders (id text primary key, charge text)')
  const once = createOnce({ store: postgresStore(fromPg(database.pool), { audit: true }) })
  let calls = 0
  let fail = true
  const keys = new Set<string>()
  const op = once.operation('orders.create', {}, async (run, input) => {
    const order = await run.phase('order_created', async (tx) => {
      await tx.query('insert into orders (id) values ($1)', [(input as { id: string }).id])
      return { id: (input as { id: string }).id, at: new Date(0) }
    })
    const charge = await run.call('charge_created', async ({ key }) => {
      calls += 1
      keys.add(key)
      return { id: `ch_${key}` }
    })
    if (fail) {
      fail = false
      throw new Error('boom')
    }
    return run.finish(async (tx) => {
      await tx.query('update orders set charge = $2 where id = $1', [order.id, charge.id])
      await run.stage(tx, 'send_receipt', { order: order.id })
      return reply(201, { id: order.id, at: order.at })
    })
  })
  await expect(op.run({ tenant: 't', key: 'k', input: { id: 'o1' } })).rejects.toThrow('boom')
  const outcome = await op.run({ tenant: 't', key: 'k', input: { id: 'o1' } })
  expect(outcome).toMatchObject({ kind: 'executed', stored: true })
  if (outcome.kind === 'executed') expect(bodyOf(outcome.answer)).toEqual({ id: 'o1', at: '1970-01-01T00:00:00.000Z' })
  expect(calls).toBe(1)
  expect(keys.size).toBe(1)
  expect((await op.run({ tenant: 't', key: 'k', input: { id: 'o1' } })).kind).toBe('replayed')
  console.log(await once.history({ tenant: 't', scope: 'orders.create', key: 'k' }))
  console.log(
    (await database.pool.query('select * from oncekey.steps')).rows,
    (await database.pool.query('select * from oncekey.jobs')).rows,
  )
})
