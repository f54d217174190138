import type pg from 'pg'
import { expect, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { aClaim } from '../../src/testing/store-cases/store-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { setup } from './setup.js'

const database = useDatabase()

/** A transaction of the user's own, at any isolation level. */
async function inTransaction<T>(work: (tx: pg.PoolClient) => Promise<T>, begin = 'begin', end = 'commit'): Promise<T> {
  const tx = await database.pool.connect()
  try {
    await tx.query(begin)
    const result = await work(tx)
    await tx.query(end)
    return result
  } catch (error) {
    await tx.query('rollback')
    throw error
  } finally {
    tx.release()
  }
}

test('commits local work and its key together, and replays it', async () => {
  const { once, tenant, insert, things } = await setup(database)
  const credit = once.local('local', {}, async (tx) => {
    await insert(tx, 'local')
    return reply(201, { ok: true })
  })
  expect((await credit.run({ tenant, key: 'k', input: 1 })).kind).toBe('executed')
  expect(await credit.run({ tenant, key: 'k', input: 1 })).toMatchObject({ kind: 'replayed', answer: { status: 201 } })
  expect(await credit.run({ tenant, key: 'k', input: 2 })).toMatchObject({ kind: 'mismatch', part: 'body' })
  expect((await things()).filter((id) => id === 'local')).toHaveLength(1)
})

test('leaves nothing of local work that throws, not even the key', async () => {
  const { once, tenant, insert, things, key } = await setup(database)
  let fail = true
  const credit = once.local('local-throws', {}, async (tx) => {
    await insert(tx, 'local-throws')
    if (fail) throw new Error('no')
    return reply(201)
  })
  await expect(credit.run({ tenant, key: 'k', input: null })).rejects.toThrow('no')
  expect(await things()).not.toContain('local-throws')
  expect(await key('k')).toBeUndefined()
  fail = false
  expect((await credit.run({ tenant, key: 'k', input: null })).kind).toBe('executed')
})

test('lets 100 duplicates of local work wait and replay on a pool of five, without a deadlock', async () => {
  const { tenant, insert, things } = await setup(database)
  const once = createOnce({ store: postgresStore(fromPg(database.createPool({ max: 5 }))) })
  let runs = 0
  const credit = once.local('local-hundred', {}, async (tx) => {
    runs += 1
    await insert(tx, 'local-hundred')
    await tx.query('select pg_sleep(0.05)')
    return reply(201)
  })
  const outcomes = await Promise.all(Array.from({ length: 100 }, () => credit.run({ tenant, key: 'k', input: null })))
  expect(runs).toBe(1)
  expect(outcomes.filter(({ kind }) => kind === 'executed')).toHaveLength(1)
  expect(outcomes.filter(({ kind }) => kind === 'replayed')).toHaveLength(99)
  expect((await things()).filter((id) => id === 'local-hundred')).toHaveLength(1)
})

test("does a message's work once, in the consumer's own transaction", async () => {
  const { once, tenant, insert, things } = await setup(database)
  const consume = () =>
    inTransaction((tx) =>
      once.within(tx, { tenant, scope: 'inbox', key: 'message-1', retention: '7d' }, async () => void (await insert(tx, 'within'))),
    )
  expect((await consume()).kind).toBe('executed')
  expect((await consume()).kind).toBe('replayed')
  expect((await things()).filter((id) => id === 'within')).toHaveLength(1)
})

test('forgets key and work together when the consumer rolls back later', async () => {
  const { once, tenant, insert, things } = await setup(database)
  const consume = (end: string) =>
    inTransaction(
      (tx) => once.within(tx, { tenant, scope: 'inbox', key: 'm' }, async () => void (await insert(tx, 'within-rolled-back'))),
      'begin',
      end,
    )
  expect((await consume('rollback')).kind).toBe('executed')
  expect(await things()).not.toContain('within-rolled-back')
  expect((await consume('commit')).kind).toBe('executed')
  expect(await things()).toContain('within-rolled-back')
})

test('is never recorded as done without its work when the consumer catches an error and commits anyway', async () => {
  const { once, tenant, insert, things } = await setup(database)
  for (const failure of ['thrown', 'sql'] as const) {
    const key = `m-${failure}`
    const consume = (fail: boolean) =>
      inTransaction(async (tx) => {
        await insert(tx, `outside-${failure}-${fail}`)
        return once
          .within(tx, { tenant, scope: 'inbox', key }, async () => {
            await insert(tx, `inside-${failure}`)
            if (fail && failure === 'thrown') throw new Error('caught')
            if (fail) await tx.query('select 1/0')
          })
          .catch(() => ({ kind: 'caught' }))
      })
    expect((await consume(true)).kind).toBe('caught')
    expect(await things()).not.toContain(`inside-${failure}`)
    // What the consumer did outside of it is the consumer's, and is there.
    expect(await things()).toContain(`outside-${failure}-true`)
    expect((await consume(false)).kind).toBe('executed')
    expect(await things()).toContain(`inside-${failure}`)
  }
})

test('runs once at SERIALIZABLE and REPEATABLE READ, where the loser has to start again', async () => {
  const { once, tenant, things } = await setup(database)
  for (const level of ['repeatable read', 'serializable']) {
    const consume = async (): Promise<string> => {
      for (;;) {
        try {
          const { kind } = await inTransaction(
            (tx) =>
              once.within(tx, { tenant, scope: level, key: 'm' }, async () => {
                await tx.query('insert into things (id) values ($1)', [`${level} ${crypto.randomUUID()}`])
              }),
            `begin isolation level ${level}`,
          )
          return kind
        } catch (error) {
          if ((error as { code?: string }).code !== '40001') throw error
        }
      }
    }
    const kinds = await Promise.all(Array.from({ length: 10 }, consume))
    expect(kinds.filter((kind) => kind === 'executed')).toHaveLength(1)
    expect((await things()).filter((id) => id.startsWith(level))).toHaveLength(1)
  }
})

test('waits for a transaction that has the key, and does the work if that one rolls back', async () => {
  const { once, tenant, insert } = await setup(database)
  const request = { tenant, scope: 'inbox', key: 'm' }
  let second: Promise<{ kind: string }> | undefined
  await inTransaction(
    async (tx) => {
      await once.within(tx, request, async () => void (await insert(tx, 'first')))
      second = inTransaction((other) => once.within(other, request, async () => void (await insert(other, 'second'))))
    },
    'begin',
    'rollback',
  )
  expect((await second)?.kind).toBe('executed')
})

test.each(['a phase', 'local work'])('in %s, a failed statement whose error was caught is named', async (where) => {
  const { once, tenant } = await setup(database)
  const work = (tx: pg.PoolClient) => tx.query('select 1/0').catch(() => {})
  const operation =
    where === 'a phase'
      ? once.operation('caught', {}, async (run) => {
          await run.phase('one', async (tx) => void (await work(tx)))
          return reply(201)
        })
      : once.local('caught-local', {}, async (tx) => {
          await work(tx)
          return reply(201)
        })
  const misuse = { code: 'transaction_ended', message: expect.stringContaining('its error was caught') }
  await expect(operation.run({ tenant, key: 'k', input: null })).rejects.toMatchObject(misuse)
})

test('work within a transaction that has failed, or in none, is refused by name', async () => {
  const { once, tenant } = await setup(database)
  const ref = { tenant, scope: 's', key: 'k' }
  await inTransaction(async (tx) => {
    await tx.query('select 1/0').catch(() => {})
    await expect(once.within(tx, ref, () => {})).rejects.toMatchObject({
      code: 'transaction_ended',
      message: expect.stringContaining('its error was caught'),
    })
  })
  const none = { code: 'transaction_ended', message: expect.stringContaining('no open transaction') }
  await expect(once.within(database.pool as never, ref, () => {})).rejects.toMatchObject(none)
  const client = await database.pool.connect()
  await expect(once.within(client, ref, () => {})).rejects.toMatchObject(none)
  client.release()
})

test('an end that local work gave an abandoned key is told when it is committed, and not before', async () => {
  const { pool, tenant, key } = await setup(database)
  const connection = fromPg(pool)
  let isBroken = true
  const breaking: typeof connection = {
    ...connection,
    transaction: (work, times) =>
      connection.transaction(async (tx) => {
        const value = await work(tx)
        if (isBroken) throw new Error('the commit failed')
        return value
      }, times),
  }
  const store = postgresStore(breaking)
  await store.keyClaim(aClaim({ tenant, scope: 'ends', key: 'k', afterFailure: 'store', leaseMs: 1, fingerprint: null }))
  await new Promise((resolve) => setTimeout(resolve, 10))
  const local = createOnce({ store }).local('ends', {}, () => reply(201))
  await expect(local.run({ tenant, key: 'k', input: null })).rejects.toMatchObject({ code: expect.stringMatching(/^store_/) })
  expect((await key('k')).state).toBe('processing')
  isBroken = false
  expect(await local.run({ tenant, key: 'k', input: null })).toMatchObject({ kind: 'replayed', state: 'failed' })
})

test('a duplicate that waits for local work of a process that stops begins nothing', async () => {
  const { once, tenant } = await setup(database)
  let runs = 0
  let end = () => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  const local = once.local('stopping', {}, async () => {
    runs += 1
    await ended
    throw new Error('it failed')
  })
  const request = { tenant, key: 'k', input: null }
  const first = local.run(request)
  await waitUntil('it runs', () => runs)
  const second = expect(local.run(request)).rejects.toMatchObject({ code: 'shutting_down' })
  await once.stop({ within: 1 })
  end()
  await expect(first).rejects.toThrow('it failed')
  await second
  expect(runs).toBe(1)
})
