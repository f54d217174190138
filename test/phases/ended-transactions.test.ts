// Work that ends its own transaction: its rows and our record would not be one commit.
import { expect, test } from 'vitest'
import { createOnce, type OnceEvent, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'

const database = useDatabase()

async function setup() {
  await database.ensure('create table if not exists ended (id text primary key)')
  const events: OnceEvent[] = []
  const once = createOnce({ store: postgresStore(fromPg(database.createPool())), onEvent: (event) => void events.push(event) })
  const rows = async (id: string) => (await database.pool.query('select id from ended where id = $1', [id])).rowCount
  return { once, events, rows, id: crypto.randomUUID() }
}

const ended = { code: 'transaction_ended', message: expect.stringContaining('throw') }

test.each(['rollback', 'commit', 'rollback; begin', 'commit; begin'])(
  '%s in a phase is refused, and the phase is not recorded',
  async (statement) => {
    const { once, id } = await setup()
    let phases = 0
    const operation = once.operation(`ends.${id}`, {}, async (run) => {
      await run.phase('one', async (tx) => {
        phases += 1
        await tx.query('insert into ended values ($1) on conflict do nothing', [id])
        if (phases === 1) await tx.query(statement)
      })
      return reply(201)
    })
    const request = { tenant: id, key: 'k', input: {} }
    await expect(operation.run(request)).rejects.toMatchObject(ended)
    // The next attempt makes the phase again.
    expect((await operation.run(request)).kind).toBe('executed')
    expect(phases).toBe(2)
  },
)

test('in a finish and in local work as well', async () => {
  const { once, id, rows } = await setup()
  const finishing = once.operation(`finish.${id}`, {}, (run) =>
    run.finish(async (tx) => {
      await tx.query('insert into ended values ($1)', [id])
      await tx.query('rollback')
      return reply(201)
    }),
  )
  await expect(finishing.run({ tenant: id, key: 'k', input: {} })).rejects.toMatchObject(ended)
  const local = once.local(`local.${id}`, {}, async (tx) => {
    await tx.query('insert into ended values ($1)', [id])
    await tx.query('rollback')
    return reply(201)
  })
  await expect(local.run({ tenant: id, key: 'k', input: {} })).rejects.toMatchObject(ended)
  expect(await rows(id)).toBe(0)
})

test("a connection that had such a transaction is as good as any other, and so is a user's own transaction", async () => {
  const { once, id } = await setup()
  const local = once.local(`good.${id}`, {}, async (tx) => {
    const inner = await once.within(tx, { tenant: id, scope: 's', key: 'inner' }, () => {})
    return reply(201, inner.kind)
  })
  expect((await local.run({ tenant: id, key: 'k', input: {} })).kind).toBe('executed')
  const client = await database.pool.connect()
  await client.query('begin')
  expect((await once.within(client, { tenant: id, scope: 's', key: 'own' }, () => {})).kind).toBe('executed')
  await client.query('commit')
  client.release()
})

test('a transaction that was begun through another connection of the same pool is nothing else', async () => {
  const { once, id } = await setup()
  const outcome = await fromPg(database.pool).transaction((tx) => once.within(tx, { tenant: id, scope: 's', key: 'other' }, () => {}))
  expect(outcome.kind).toBe('executed')
})
