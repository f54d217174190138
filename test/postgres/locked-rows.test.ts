import { expect, onTestFinished, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { aClaim, aFinish, again, leaseMs, take } from '../../src/testing/store-cases/store-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'

const database = useDatabase()

/** Somebody who has locked a key's row and does not move. */
async function lockRow(key: { tenant: string }) {
  const frozen = await database.pool.connect()
  onTestFinished(async () => {
    await frozen.query('rollback')
    frozen.release()
  })
  await frozen.query('begin')
  await frozen.query('select from oncekey.keys where tenant = $1 for update', [key.tenant])
}

test('renews the leases of others at once when somebody has locked a row, and calls that one busy, not lost', async () => {
  const store = postgresStore(fromPg(database.pool))
  const claims = [aClaim(), aClaim(), aClaim()] as const
  const held = [await take(store, claims[0]), await take(store, claims[1]), await take(store, claims[2])]
  await lockRow(claims[1])
  const leases = held.map(({ lease }) => ({ ...lease, leaseMs }))
  // It would wait for the lock, which nobody gives back before this test ends.
  expect(await store.keyHeartbeat({ leases })).toEqual(['renewed', 'busy', 'renewed'])
})

test('tells a duplicate that the key is in use while somebody has changed its row in an open transaction, alone and in a batch', async () => {
  const store = postgresStore(fromPg(database.pool))
  const claims = [aClaim(), aClaim()] as const
  for (const claim of claims) await take(store, claim)
  const frozen = await database.pool.connect()
  onTestFinished(async () => {
    await frozen.query('rollback')
    frozen.release()
  })
  await frozen.query('begin')
  await frozen.query(`update oncekey.keys set recovery_point = 'frozen here' where tenant = any ($1)`, [claims.map(({ tenant }) => tenant)])
  // They would wait for the transaction, which does not end before this test does.
  expect((await store.keyClaim(again(claims[0]))).kind).toBe('in-progress')
  const verdicts = await Promise.all([...claims.map((claim) => store.keyClaim(again(claim))), store.keyClaim(aClaim())])
  expect(verdicts.map(({ kind }) => kind)).toEqual(['in-progress', 'in-progress', 'execute'])
})

test('reaps around a row that somebody has locked', async () => {
  const store = postgresStore(fromPg(database.pool))
  const claims = [aClaim(), aClaim()] as const
  for (const claim of claims) await store.keyFinish(aFinish(await take(store, claim)))
  await database.pool.query(
    `update oncekey.keys set expires_at = now() - interval '1 hour', reap_after = now() - interval '1 hour' where tenant = any($1)`,
    [claims.map(({ tenant }) => tenant)],
  )
  await lockRow(claims[0])
  expect(await store.keyReap({ limit: 1000 })).toBe(1)
  expect(await store.keyRead(claims[1])).toBeUndefined()
})

test('takes the key from a handler past its maxRun, although its process is alive', async () => {
  const pool = database.createPool()
  const events: string[] = []
  const once = createOnce({
    store: postgresStore(fromPg(pool)),
    lease: '10m',
    maxRun: '300ms',
    onEvent: ({ type }) => void events.push(type),
  })
  const request = { tenant: 'max-run', scope: 's', key: 'hangs', fingerprint: false, afterFailure: 'rerun' } as const
  let wake = () => {}
  const hung = new Promise<void>((resolve) => {
    wake = resolve
  })
  let reason: unknown
  const hanging = once.execute(request, async ({ signal }) => {
    signal.addEventListener('abort', () => {
      reason = signal.reason
    })
    await hung
    return reply(200, { by: 'the one that hung' })
  })
  await waitUntil('its time is up', () => reason)
  // The last heartbeat may have been sent a moment before.
  await waitUntil('no heartbeat is on its way', () => pool.idleCount === pool.totalCount)
  // No other one comes. The ten minutes of its lease pass for the database.
  await pool.query(`update oncekey.keys set locked_until = clock_timestamp() where tenant = 'max-run'`)
  const taken = await once.execute(request, () => reply(200, { by: 'the next one' }))
  if (taken.kind !== 'executed') throw new Error(taken.kind)
  expect(taken.stored).toBe(true)
  expect(reason).toMatchObject({ code: 'max_run_exceeded' })
  wake()
  await expect(hanging).rejects.toMatchObject({ code: 'lease_lost' })
  expect(events).toContain('max-run-exceeded')
  const replayed = await once.execute(request, () => reply(500))
  expect(replayed.kind === 'replayed' && new TextDecoder().decode(replayed.answer.body)).toBe('{"by":"the next one"}')
})

test("works on a pool of one connection while the work uses that connection for the user's transactions", async () => {
  const pool = database.createPool({ max: 1 })
  const store = postgresStore(fromPg(pool))
  const once = createOnce({ store, lease: '1m' })
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      once.execute({ tenant: 'one', scope: 's', key: `key-${index % 5}`, fingerprint: false, afterFailure: 'rerun' }, async () => {
        const rows = await store.steps.transaction(async (tx) => (await tx.query('select pg_sleep(0.05)')).rows)
        return reply(200, rows.length)
      }),
    ),
  )
  expect(outcomes.filter(({ kind }) => kind === 'executed')).toHaveLength(5)
})

test('a turn whose row another session is making is not to be had, and is no error in a session with little patience', async () => {
  const { turns } = postgresStore(fromPg(database.createPool({ options: '-c lock_timeout=50' })))
  const turn = { name: 'in the making', holder: crypto.randomUUID(), turnMs: 60_000, early: true }
  const other = await database.pool.connect()
  await other.query(`begin; insert into oncekey.upkeep (name, frontier) values ('in the making', '-infinity')`)
  expect(await turns?.turnTake(turn)).toBeUndefined()
  await other.query('rollback')
  other.release()
  expect(await turns?.turnTake(turn)).toBeDefined()
})
