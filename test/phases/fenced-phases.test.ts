import type pg from 'pg'
import { expect, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'
import { startProxy } from '../support/postgres/proxy.js'
import { waitUntil } from '../support/wait-until.js'
import { setup } from './setup.js'

const database = useDatabase()

test('leaves no row of a zombie that was frozen in the middle of a phase', async () => {
  const { pool } = await setup(database)
  const zombie = startChild('phases/zombie.ts', { url: database.url })
  // It has inserted its row, in a transaction that is still open, and now it freezes.
  expect(await zombie.message()).toBe('in the phase')
  zombie.signal('SIGSTOP')

  const once = createOnce({ store: postgresStore(fromPg(pool)) })
  const operation = once.operation('zombie', {}, async (run) => {
    await run.phase('ordered', (tx) => tx.query(`insert into things (id, note) values ('zombie-2', 'by the next')`).then(() => {}))
    return reply(201, { by: 'the next' })
  })
  const taken = await waitUntil('the key is taken over', async () => {
    const outcome = await operation.run({ tenant: 'zombies', key: 'k', input: null })
    return outcome.kind === 'executed' ? outcome : undefined
  })
  expect(taken.stored).toBe(true)

  zombie.send('go on')
  zombie.signal('SIGCONT')
  expect(await zombie.message()).toEqual({ code: 'lease_lost' })
  const { rows } = await pool.query(`select id from things where id like 'zombie-%'`)
  expect(rows).toEqual([{ id: 'zombie-2' }])
  const { rows: keys } = await pool.query(`select state, fence from oncekey.keys where tenant = 'zombies'`)
  expect(keys).toEqual([{ state: 'complete', fence: 2 }])
})

test('does not let a catch around a fenced phase store a reply', async () => {
  const { once, newOnce, tenant, insert, advance, things, key } = await setup(database)
  const thief = newOnce().operation('fenced', {}, () => reply(201, 'the thief'))
  const operation = once.operation('fenced', {}, async (run) => {
    try {
      await run.phase('late', async (tx) => {
        await insert(tx, 'fenced')
        await advance(60_000)
        await thief.run({ tenant, key: 'k', input: null })
      })
    } catch {
      return reply(200, 'all is well')
    }
    return reply(200)
  })
  await expect(operation.run({ tenant, key: 'k', input: null })).rejects.toMatchObject({ code: 'lease_lost' })
  expect(await things()).not.toContain('fenced')
  expect(await key('k')).toMatchObject({ state: 'complete', fence: 2 })
})

/** A service behind a proxy that can lose the reply to a statement, by its text: none is prepared. */
async function behindProxy() {
  const bundle = await setup(database)
  const proxy = await startProxy(database.url)
  const pool = database.createPool({ connectionString: proxy.url })
  const once = createOnce({ store: postgresStore(fromPg(pool, { prepare: false })) })
  return { ...bundle, once, proxy }
}

const commit = /commit\0/

test('does not apply a phase twice when the acknowledgement of its COMMIT is lost', async () => {
  const { once, tenant, insert, things, proxy, steps } = await behindProxy()
  let runs = 0
  const operation = once.operation('lost-commit', {}, async (run) => {
    const cut = proxy.swallowReplyTo(commit)
    const result = await run.phase('ordered', async (tx) => {
      runs += 1
      await insert(tx, `lost-commit-${runs}`)
      await run.stage(tx, 'receipt', {})
      return { runs }
    })
    await cut
    return reply(201, result)
  })
  expect(await operation.run({ tenant, key: 'k', input: null })).toMatchObject({ kind: 'executed', stored: true })
  expect((await things()).filter((id) => id.startsWith('lost-commit'))).toEqual(['lost-commit-1'])
  expect(await steps()).toEqual([{ name: 'ordered', kind: 'phase', result: '{"runs":1}' }])
  const { rows } = await database.pool.query('select 1 from oncekey.jobs where tenant = $1', [tenant])
  expect(rows).toHaveLength(1)
})

test('does not finish twice when the acknowledgement of the last COMMIT is lost', async () => {
  const { once, tenant, insert, things, proxy } = await behindProxy()
  let runs = 0
  const operation = once.operation('lost-finish', {}, async (run) => {
    const cut = proxy.swallowReplyTo(commit)
    const answer = await run.finish(async (tx) => {
      runs += 1
      await insert(tx, `lost-finish-${runs}`)
      return reply(201, { runs })
    })
    await cut
    return answer
  })
  expect(await operation.run({ tenant, key: 'k', input: null })).toMatchObject({ kind: 'executed', answer: { status: 201 } })
  expect((await things()).filter((id) => id.startsWith('lost-finish'))).toEqual(['lost-finish-1'])
  expect(runs).toBe(1)
})

test('does not commit twice when the acknowledgement is lost and the first commit is still on its way', async () => {
  const { pool, tenant, things } = await setup(database)
  const store = postgresStore(fromPg(pool))
  let cut = 0
  // The first commit of each kind arrives, its acknowledgement does not, and the look at the record comes too early to see it.
  const steps: typeof store.steps = {
    ...store.steps,
    async transaction(work) {
      const result = await store.steps.transaction(work)
      cut += 1
      if (cut === 1 || cut === 3) throw Object.assign(new Error('reset'), { code: 'ECONNRESET' })
      return result
    },
    stepsRead: async (lease) => (cut === 1 && early.delete('phase') ? { steps: [], lastCommitAgeMs: 0 } : store.steps.stepsRead(lease)),
  }
  const early = new Set(['phase', 'finish'])
  const keyRead: typeof store.keyRead = async (ref) => (early.delete('finish') ? undefined : store.keyRead(ref))
  const once = createOnce({ store: { ...store, keyRead, steps } })
  let runs = 0
  const write = (name: string) => (tx: pg.PoolClient) => tx.query('insert into things (id) values ($1)', [`${name} ${++runs}`])
  const operation = once.operation('early-look', {}, async (run) => {
    await run.phase('ordered', async (tx) => void (await write('early phase')(tx)))
    cut = 2
    return run.finish(async (tx) => {
      await write('early finish')(tx)
      return reply(201)
    })
  })
  expect(await operation.run({ tenant, key: 'k', input: null })).toMatchObject({ kind: 'executed', answer: { status: 201 } })
  expect(early.size).toBe(0)
  expect(runs).toBe(4)
  expect((await things()).filter((id) => id.startsWith('early'))).toEqual(['early finish 3', 'early phase 1'])
})

test('does not run local work twice when the acknowledgement of its COMMIT is lost', async () => {
  const { once, tenant, insert, things, proxy } = await behindProxy()
  let runs = 0
  const operation = once.local('lost-local', {}, async (tx) => {
    runs += 1
    await insert(tx, `lost-local-${runs}`)
    return reply(201, { runs })
  })
  await operation.run({ tenant, key: 'warm-up', input: null })
  const cut = proxy.swallowReplyTo(commit)
  expect(await operation.run({ tenant, key: 'k', input: null })).toMatchObject({ kind: 'executed' })
  await cut
  expect((await things()).filter((id) => id.startsWith('lost-local'))).toEqual(['lost-local-1', 'lost-local-2'])
})

test('does not record a call twice when the acknowledgement of its intent or result is lost', async () => {
  const { once, tenant, steps, proxy } = await behindProxy()
  let made = 0
  const operation = once.operation('lost-record', {}, async (run) => {
    const intent = proxy.swallowReplyTo(/update "oncekey".keys as key set recovery_point/)
    await run.call(
      'charge',
      async () => {
        await intent
        made += 1
        void proxy.swallowReplyTo(/update "oncekey".keys as key set recovery_point/)
        return 'ch_1'
      },
      { whenUnknown: 'park' },
    )
    return reply(201)
  })
  expect(await operation.run({ tenant, key: 'k', input: null })).toMatchObject({ kind: 'executed', stored: true })
  expect(made).toBe(1)
  expect(await steps()).toEqual([{ name: 'charge', kind: 'call', result: '"ch_1"' }])
})
