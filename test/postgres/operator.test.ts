import { expect, test } from 'vitest'
import { createOnce } from '../../src/index.js'
import { fromPg, postgresOperator, postgresStore } from '../../src/stores/postgres/index.js'
import { aClaim, take } from '../../src/testing/store-cases/store-case.js'
import { keysOf } from '../cli/keys.js'
import { useDatabase } from '../support/postgres/database.js'

const database = useDatabase()

/** What the command line refuses by itself, the statements refuse too: tools of others stand on them. */
async function setup(make: (keys: ReturnType<typeof keysOf>) => Promise<unknown>) {
  const keys = keysOf(database)
  await make(keys)
  const operator = postgresOperator(fromPg(database.pool))
  const [seen] = await operator.keysList({ tenant: keys.tenant, limit: 1 })
  if (!seen) throw new Error('no key')
  return { keys, operator, seen, before: await keys.row() }
}

test.each([
  ['finished', (keys: ReturnType<typeof keysOf>) => keys.complete()],
  ['in doubt', (keys: ReturnType<typeof keysOf>) => keys.inDoubt()],
  ['held', (keys: ReturnType<typeof keysOf>) => keys.held()],
])('retries no key that is %s', async (_, make) => {
  const { keys, operator, seen, before } = await setup(make)
  expect(await operator.keyRetry(seen, { note: 'n' })).toBe(false)
  expect(await keys.row()).toEqual(before)
  expect(await keys.trail()).toEqual([])
})

test.each(['store', 'park'] as const)("retries no parked work of '%s'", async (afterFailure) => {
  const { keys, operator, seen, before } = await setup(async (made) => {
    await made.parked()
    await database.pool.query('update oncekey.keys set after_failure = $2 where tenant = $1', [made.tenant, afterFailure])
  })
  expect(await operator.keyRetry(seen, { note: 'n' })).toBe(false)
  expect(await keys.row()).toEqual(before)
})

test.each(['store', 'park'] as const)("releases no work of '%s' unless it may run again", async (afterFailure) => {
  const { keys, operator, seen, before } = await setup((made) => made.held({ afterFailure }))
  expect(await operator.keyReleaseByHand(seen, { note: 'n', fromLiveHolder: true, rerun: false })).toBe(false)
  expect(await keys.row()).toEqual(before)
  expect(await operator.keyReleaseByHand(seen, { note: 'n', fromLiveHolder: false, rerun: true })).toBe(true)
})

test('releases nothing from a live holder unless it is said', async () => {
  const { keys, operator, seen, before } = await setup((made) => made.held({ over: false }))
  expect(await operator.keyReleaseByHand(seen, { note: 'n', fromLiveHolder: false, rerun: true })).toBe(false)
  expect(await keys.row()).toEqual(before)
})

test('keeps notes of any text', async () => {
  const { keys, operator, seen } = await setup((made) => made.pending())
  expect(await operator.keyRetry(seen, { note: `\0${'x'.repeat(600)}` })).toBe(true)
  expect((await keys.trail())[0]?.detail).toHaveLength(500)
})

test('changes of several operators at SERIALIZABLE are tried again, and what still conflicts is a store_conflict', async () => {
  const pool = database.createPool({ max: 8, options: '-c default_transaction_isolation=serializable' })
  const operator = postgresOperator(fromPg(pool))
  const store = postgresStore(fromPg(database.pool))
  const tenant = crypto.randomUUID()
  const codes = new Set<string>()
  const isExpected = ({ code }: { code: string }) => void codes.add(code)
  for (let round = 0; round < 5; round += 1) {
    for (let number = 0; number < 6; number += 1) await take(store, aClaim({ tenant, key: `${round}-${number}` }))
    await database.pool.query(
      `update oncekey.keys set locked_until = now() - interval '1 minute' where tenant = $1 and state = 'processing'`,
      [tenant],
    )
    const seen = (await operator.keysList({ tenant, limit: 100 })).filter(({ state }) => state === 'processing')
    const release = (note: string) => seen.map((key) => operator.keyReleaseByHand(key, { note, fromLiveHolder: false, rerun: false }))
    const changes: Promise<unknown>[] = [...release('x'), ...release('y'), operator.keysTakeBack({ note: 'z' })]
    await Promise.all(changes.map((change) => change.catch(isExpected)))
  }
  expect([...codes].filter((code) => code !== 'store_conflict')).toEqual([])
})

test.each(['retry', 'release', 'resolve', 'fail', 'once.resolve'] as const)(
  'a %s of a key whose row is locked says so soon, and leaves no statement behind that waits',
  async (verb) => {
    const { keys, operator, seen } = await setup((made) => {
      if (verb === 'retry') return made.pending()
      return verb === 'release' ? made.held({ afterFailure: 'rerun' }) : made.parked()
    })
    const failed = { as: 'failed', answer: { status: 500, headers: [], body: new Uint8Array() } } as const
    const retention = { ms: 3_600_000, from: 'creation', floorMs: 0 } as const
    const change = {
      retry: () => operator.keyRetry(seen, { note: 'n' }),
      release: () => operator.keyReleaseByHand(seen, { note: 'n', fromLiveHolder: true, rerun: true }),
      resolve: () => operator.keyResolve(seen, { resolution: { as: 'did-not-happen' }, by: 'n' }),
      fail: () => operator.keyResolve(seen, { resolution: { ...failed, retention }, by: 'n' }),
      'once.resolve': () =>
        createOnce({ store: postgresStore(fromPg(database.pool)) })
          .resolve(seen, { as: 'did-not-happen', by: 'n' })
          .then(() => true),
    }[verb]
    const before = await keys.row()
    const holder = await database.pool.connect()
    try {
      await holder.query('begin')
      await holder.query('select from oncekey.keys where id = $1 for update', [seen.id])
      await expect(change()).rejects.toMatchObject({ code: 'key_locked' })
      const { rows } = await holder.query(`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)
      expect(rows).toEqual([])
    } finally {
      await holder.query('rollback')
      holder.release()
    }
    expect(await keys.row()).toEqual(before)
    expect([true, 'done']).toContain(await change())
  },
)

test('an operator whose statement conflicts once does not notice', async () => {
  const connection = fromPg(database.pool)
  let sent = 0
  const query: typeof connection.query = async (...statement) => {
    sent += 1
    if (sent === 1) throw Object.assign(new Error('could not serialize access'), { code: '40001' })
    return connection.query(...statement)
  }
  expect(await postgresOperator({ ...connection, query }).keysList({ tenant: crypto.randomUUID(), limit: 1 })).toEqual([])
  expect(sent).toBe(2)
})
