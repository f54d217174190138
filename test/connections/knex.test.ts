import createKnex, { type Knex } from 'knex'
import { afterAll, describe, expect, expectTypeOf, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { type Connection, fromKnex, postgresStore } from '../../src/stores/postgres/index.js'
import { exerciseStore } from '../../src/testing/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { emptyHarness } from '../support/postgres/harness.js'
import { exerciseConnection } from './scenario.js'

interface Order {
  id: string
  charge: string | null
}

const database = useDatabase({ migrated: false })

function openKnex(max: number, config: Knex.Config = {}): Knex {
  const quiet = { warn: () => {} }
  const knex = createKnex({ client: 'pg', connection: database.url, pool: { min: 0, max }, log: quiet, ...config })
  afterAll(() => knex.destroy())
  return knex
}

const knex = openKnex(1)

exerciseConnection<Knex.Transaction>(database, () => ({
  connection: fromKnex(knex),
  transaction: (work) => knex.transaction(work),
  insertOrder: (tx, id) => tx<Order>('orders').insert({ id }),
  chargeOrder: (tx, id, charge) => tx<Order>('orders').update({ charge }).where({ id }),
}))

describe('with a postProcessResponse that renames whatever it finds', () => {
  const renaming = openKnex(10, { postProcessResponse: camelCased })
  exerciseStore({ test, setup: () => emptyHarness(fromKnex(renaming)) })
})

test.each(['rollback', 'commit'] as const)('a phase whose work ends the transaction by %s itself is an error, not done', async (end) => {
  const store = postgresStore(fromKnex(knex))
  const create = createOnce({ store }).operation('orders.end', {}, async (run) => {
    await run.phase('created', async (tx) => {
      await tx[end]()
    })
    return reply(201)
  })

  await expect(create.run({ tenant: 'tenant', key: end, input: null })).rejects.toThrow('already complete')
  const record = await store.keyRead({ tenant: 'tenant', scope: 'orders.end', key: end })
  expect(record).toMatchObject({ state: 'pending', recoveryPoint: null })
})

test("a phase is typed as the user's transaction", () => {
  expectTypeOf(fromKnex(knex)).toEqualTypeOf<Connection<Knex.Transaction>>()

  const once = createOnce({ store: postgresStore(fromKnex(knex)) })
  once.operation('orders.create', {}, async (run) => {
    const [order] = await run.phase('created', (tx) => tx<Order>('orders').insert({ id: '1' }).returning('*'))
    expectTypeOf(order).toEqualTypeOf<Order | undefined>()
    // @ts-expect-error: an order has no such column
    await run.phase('refused', (tx) => tx<Order>('orders').insert({ number: 1 }))
    return run.finish(async (tx) => {
      expectTypeOf(tx).toEqualTypeOf<Knex.Transaction>()
      return reply(201, order)
    })
  })
  once.local('credits.add', {}, async (tx) => {
    expectTypeOf(tx).toEqualTypeOf<Knex.Transaction>()
    return reply(201)
  })
})

/** As many projects do it: every member of every object, however deep. */
function camelCased(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelCased)
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()), camelCased(member)]),
  )
}
