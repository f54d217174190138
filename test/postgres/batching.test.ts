import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { KeyClaim } from '../../src/index.js'
import { type Connection, fromDrizzle, fromPg, type PostgresStoreOptions, postgresStore } from '../../src/stores/postgres/index.js'
import { aClaim, aFinish, again, type Execute, take } from '../../src/testing/store-cases/store-case.js'
import { codeOf } from '../support/code-of.js'
import { useDatabase } from '../support/postgres/database.js'

const database = useDatabase()

/** A store whose statements are seen, and can be made to fail. */
function setup(options: PostgresStoreOptions = {}, hook: (text: string) => void = () => {}) {
  const connection = fromPg(database.pool)
  const sent: string[] = []
  const valuesSent: (readonly unknown[])[] = []
  const seen: Connection<unknown> = {
    ...(connection as Connection<unknown>),
    async query(text, values) {
      sent.push(text)
      valuesSent.push(values)
      hook(text)
      return connection.query(text, values)
    },
  }
  const store = postgresStore(seen, options)
  return { store, sent, valuesSent, count: (pattern: RegExp) => sent.filter((text) => pattern.test(text)).length }
}

const batchedClaim = /unnest[\s\S]*insert into/
const batchedWrite = /update[\s\S]*unnest/
const singleClaim = /^(?![\s\S]*unnest)[\s\S]*existing as[\s\S]*insert into/

const claims = (count: number, changes: Partial<KeyClaim> = {}) => Array.from({ length: count }, () => aClaim(changes))

/** A transaction that stays open until it is rolled back, at the latest when the test ends. */
async function openTransaction() {
  const client = await database.pool.connect()
  const rollBack = async () => void (await client.query('rollback'))
  onTestFinished(async () => {
    await rollBack()
    client.release()
  })
  await client.query('begin')
  return { client, rollBack }
}

/** Has the row of the key locked until it is rolled back. */
async function lockRow({ lease }: Execute) {
  const { client, rollBack } = await openTransaction()
  await client.query('select from oncekey.keys where tenant = $1 for update', [lease.tenant])
  return rollBack
}

/** Has inserted the keys, and commits them not. */
async function insertKeys(wanted: readonly KeyClaim[]) {
  const { client, rollBack } = await openTransaction()
  const { steps } = postgresStore(fromPg(database.pool))
  for (const claim of wanted) await steps.keyClaimWithin(claim, client)
  return rollBack
}

test('claims, finishes and releases of many requests are a few statements', async () => {
  const { store, count, sent } = setup()
  await store.keyClaim(aClaim())
  sent.length = 0
  const wanted = claims(200)
  const held = (await Promise.all(wanted.map((claim) => store.keyClaim(claim)))) as Execute[]
  expect(held.map(({ kind }) => kind)).toEqual(wanted.map(() => 'execute'))
  const [finished, released] = [held.slice(0, 100), held.slice(100)]
  await Promise.all([
    ...finished.map((each) => store.keyFinish(aFinish(each))),
    ...released.map(({ lease }) => store.keyRelease({ lease, reason: 'a test' })),
  ])
  expect(count(batchedClaim)).toBe(2)
  // The finishes in two parts, since nothing else was under way.
  expect(count(batchedWrite)).toBe(3)
  expect(sent).toHaveLength(5)
  const states = await Promise.all(wanted.map(async (claim) => (await store.keyRead(claim))?.state))
  expect(states).toEqual(wanted.map((_, index) => (index < 100 ? 'complete' : 'pending')))
})

test('what finishes and releases bring along is one statement, too: each key has its own steps, jobs and recovery point', async () => {
  const { store, sent } = setup()
  const held = await Promise.all(claims(6).map((claim) => take(store, claim)))
  const [lost, plain, ...others] = held as [Execute, Execute, ...Execute[]]
  await store.keyRelease({ lease: lost.lease })
  sent.length = 0
  const step = (name: string, position = 0) => ({ name, position, kind: 'call' as const, result: JSON.stringify(name) })
  const job = () => ({ id: crypto.randomUUID(), name: 'receipt', payload: '{}' })
  const results = await Promise.all([
    store.keyFinish(aFinish(lost, { steps: [step('never')], jobs: [job()] })),
    store.keyFinish(aFinish(plain)),
    ...others.map((each, index) =>
      store.keyFinish(aFinish(each, { steps: [step('first'), step(`last-${index}`, 1)], jobs: index === 0 ? [job(), job()] : [] })),
    ),
  ])
  expect(results).toEqual(['lost', 'done', 'done', 'done', 'done', 'done'])
  // The batch, and the two questions about the one that is lost.
  expect(sent).toHaveLength(3)
  const { rows } = await database.pool.query(
    `select key.tenant, recovery_point, (select array_agg(name order by position) from oncekey.steps as step where step.key_id = key.id) as steps,
            (select count(*)::integer from oncekey.jobs as job where job.key_id = key.id) as jobs
     from oncekey.keys as key where tenant = any ($1)`,
    [held.map(({ lease }) => lease.tenant)],
  )
  const found = held.map(({ lease }) => rows.find(({ tenant }) => tenant === lease.tenant))
  expect(found.map(({ recovery_point, steps, jobs }) => ({ recovery_point, steps, jobs }))).toEqual([
    { recovery_point: null, steps: null, jobs: 0 },
    { recovery_point: null, steps: null, jobs: 0 },
    ...others.map((_, index) => ({ recovery_point: `last-${index}`, steps: ['first', `last-${index}`], jobs: index === 0 ? 2 : 0 })),
  ])
})

test('a request that is alone costs what it costs without', async () => {
  const { store, sent, count } = setup()
  await store.keyClaim(aClaim())
  sent.length = 0
  await store.keyFinish(aFinish(await take(store, aClaim())))
  expect([sent.length, count(singleClaim), count(batchedClaim)]).toEqual([2, 1, 0])
})

test.each([{ maxRows: 0 }, { maxRows: 1.5 }, { maxInFlight: 0 }, { maxInFlight: '2' as never }])('%o is an error at once', (batch) => {
  expect(codeOf(() => setup({ batch }))).toBe('option_invalid')
})

test('is off on request', async () => {
  const { store, count } = setup({ batch: false })
  await Promise.all(claims(20).map((claim) => store.keyClaim(claim)))
  expect([count(singleClaim), count(batchedClaim)]).toEqual([20, 0])
})

test('gives each its own verdict: new, replayed, mismatched, in progress, parked, taken over', async () => {
  const { store, count } = setup()
  const [replayed, mismatched, running, parked, left] = claims(5) as [KeyClaim, KeyClaim, KeyClaim, KeyClaim, KeyClaim]
  await store.keyFinish(aFinish(await take(store, replayed)))
  await store.keyFinish(aFinish(await take(store, mismatched)))
  await take(store, running)
  await store.keyPark({ lease: (await take(store, parked)).lease, answer: aFinish({} as never).answer, reason: 'a test' })
  await store.keyRelease({ lease: (await take(store, left)).lease })
  const other = { bytes: new Uint8Array([1]), differenceFrom: () => 'body' as const }
  const asked = [aClaim(), again(replayed), again(mismatched, { fingerprint: other }), again(running), again(parked), again(left)]
  const verdicts = await Promise.all(asked.map((claim) => store.keyClaim(claim)))
  expect(verdicts.map(({ kind }) => kind)).toEqual(['execute', 'replay', 'mismatch', 'in-progress', 'parked', 'execute'])
  expect(count(batchedClaim)).toBeGreaterThan(0)
})

test('has one winner among a hundred claims of one key, from two stores', async () => {
  const [one, other] = [setup(), setup()]
  const claim = aClaim()
  const verdicts = await Promise.all(Array.from({ length: 100 }, (_, number) => (number % 2 ? one : other).store.keyClaim(again(claim))))
  expect(verdicts.filter(({ kind }) => kind === 'execute')).toHaveLength(1)
})

test('a hundred duplicates of one key are one row of one statement, each with its own fingerprint compared', async () => {
  const { store, sent } = setup()
  const claim = aClaim()
  await store.keyClaim(aClaim())
  sent.length = 0
  const other = { bytes: new Uint8Array([1]), differenceFrom: () => 'body' as const }
  const asked = Array.from({ length: 100 }, (_, number) => again(claim, number % 2 ? { fingerprint: other } : {}))
  const kinds = (await Promise.all(asked.map((each) => store.keyClaim(each)))).map(({ kind }) => kind)
  expect(kinds.filter((kind) => kind === 'execute')).toHaveLength(1)
  expect(kinds.filter((kind) => kind === 'in-progress')).toHaveLength(49)
  expect(kinds.filter((kind) => kind === 'mismatch')).toHaveLength(50)
  expect(sent).toHaveLength(1)
})

test('two processes that claim the same keys in batches do not lock each other out', async () => {
  const stores = [setup(), setup(), setup()]
  for (let round = 0; round < 20; round += 1) {
    const wanted = claims(64)
    const verdicts = await Promise.all(
      stores.flatMap(({ store }) => wanted.toSorted(() => Math.random() - 0.5).map((claim) => store.keyClaim(again(claim)))),
    )
    expect(verdicts.filter(({ kind }) => kind === 'execute')).toHaveLength(64)
  }
})

test('keys are locked in the order of the primary key, however they come: claims are inserted so, and finishes sent so', async () => {
  const { store, sent, valuesSent } = setup()
  // Each row goes behind the one before: no page has a place that was left free.
  await database.pool.query('truncate oncekey.keys cascade')
  await store.keyClaim(aClaim())
  const tenant = `tenant-${crypto.randomUUID()}`
  const wanted = Array.from({ length: 30 }, () => aClaim({ tenant, key: crypto.randomUUID() }))
  const held = (await Promise.all(wanted.map((claim) => store.keyClaim(claim)))) as Execute[]
  const inOrder = held.map(({ lease }) => lease.id).sort()
  const { rows } = await database.pool.query<{ id: string }>('select id from oncekey.keys where tenant = $1 order by ctid', [tenant])
  expect(rows.map(({ id }) => id)).toEqual(inOrder)

  sent.length = 0
  valuesSent.length = 0
  await Promise.all(held.map((each) => store.keyFinish(aFinish(each))))
  expect(sent.filter((text) => batchedWrite.test(text))).toHaveLength(1)
  expect(valuesSent[0]).toContain(`{${inOrder.join(',')}}`)
})

describe('a row that somebody has locked', () => {
  /** With a timeout that ends the batch before its own does. What is asked for alone has time: it does not wait for the lock. */
  function hurriedBatches(): Connection<never> {
    const [all, batches] = [{}, { max: 1, options: '-c statement_timeout=60' }].map((options) => fromPg(database.createPool(options)))
    return {
      ...(all as unknown as Connection<never>),
      query: (text, ...rest) => ((batchedWrite.test(text) ? batches : all) as Connection<unknown>).query(text, ...rest),
    }
  }

  const ways: Record<string, () => Connection<never>> = {
    'an ORM that wraps errors': () => fromDrizzle(drizzle(database.createPool({ max: 8 })), sql) as unknown as Connection<never>,
    'a statement_timeout of its own': hurriedBatches,
  }
  test.each(Object.keys(ways))('does not fail the finishes of others with %s', async (way) => {
    const store = postgresStore((ways[way] as () => Connection<never>)())
    const [locked, ...free] = (await Promise.all(claims(6).map((claim) => take(store, claim)))) as [Execute, ...Execute[]]
    const rollBack = await lockRow(locked)
    const waiting = store.keyFinish(aFinish(locked)).catch((error: { code: string }) => error.code)
    expect(await Promise.all(free.map((each) => store.keyFinish(aFinish(each))))).toEqual(free.map(() => 'done'))
    await rollBack()
    expect(await waiting).toBe('done')
  })

  test('does not hold up the finishes of others, and is written when it is free', async () => {
    const { store } = setup()
    const held = await Promise.all(claims(10).map((claim) => take(store, claim)))
    const [locked, ...free] = held as [Execute, ...Execute[]]
    const rollBack = await lockRow(locked)
    const waiting = store.keyFinish(aFinish(locked))
    expect(await Promise.all(free.map((each) => store.keyFinish(aFinish(each))))).toEqual(free.map(() => 'done'))
    await rollBack()
    expect(await waiting).toBe('done')
  })
})

describe('a key that an open transaction has inserted', () => {
  test('does not hold up the claims of others: it is asked for alone, and is in progress until the transaction ends', async () => {
    const { store, sent, count } = setup()
    const [locked, ...free] = claims(10) as [KeyClaim, ...KeyClaim[]]
    await store.keyClaim(aClaim())
    const rollBack = await insertKeys([locked])
    sent.length = 0
    const verdicts = await Promise.all([locked, ...free].map((claim) => store.keyClaim(again(claim))))
    expect(verdicts.map(({ kind }) => kind)).toEqual(['in-progress', ...free.map(() => 'execute')])
    expect([count(batchedClaim), count(singleClaim)]).toEqual([1, 10])
    await rollBack()
    expect((await store.keyClaim(again(locked))).kind).toBe('execute')
  })

  test('holds up no others, however many such keys are claimed, and none of their statements waits on', async () => {
    const { store } = setup()
    const locked = claims(4)
    await store.keyClaim(aClaim())
    const rollBack = await insertKeys(locked)
    // One by one: each is a statement by itself.
    const waiting: Promise<{ kind: string }>[] = []
    for (const claim of locked) {
      waiting.push(store.keyClaim(again(claim)))
      await new Promise(setImmediate)
      await new Promise(setImmediate)
    }
    expect((await store.keyClaim(aClaim())).kind).toBe('execute')
    expect((await Promise.all(waiting)).map(({ kind }) => kind)).toEqual(locked.map(() => 'in-progress'))
    await rollBack()
    const retried = await Promise.all(locked.map((claim) => store.keyClaim(again(claim))))
    expect(retried.map(({ kind }) => kind)).toEqual(locked.map(() => 'execute'))
  })
})

test('what cannot be stored fails by itself, and not its neighbours', async () => {
  const { store } = setup()
  const [bad, ...good] = await Promise.all(claims(6).map((claim) => take(store, claim)))
  // Postgres takes no NUL in a text; the engine never sends one.
  const ends = await Promise.allSettled([
    store.keyFinish(aFinish(bad as Execute, { reason: 'a\u0000b' })),
    ...good.map((each) => store.keyFinish(aFinish(each))),
  ])
  expect(ends.map(({ status }) => status)).toEqual(['rejected', ...good.map(() => 'fulfilled')])
  expect(ends[0]).toMatchObject({ reason: { code: 'store_failed' } })
})

test('a connection that breaks is an error for all of its batch, and the same claims again know themselves', async () => {
  let breaks = true
  const { store } = setup({}, (text) => {
    if (!breaks || !batchedClaim.test(text)) return
    breaks = false
    throw Object.assign(new Error('reset'), { code: 'ECONNRESET' })
  })
  await store.keyClaim(aClaim())
  const wanted = claims(5)
  const first = await Promise.allSettled(wanted.map((claim) => store.keyClaim(claim)))
  expect(first.map((end) => end.status === 'rejected' && end.reason.code)).toEqual(wanted.map(() => 'store_unavailable'))
  const verdicts = await Promise.all(wanted.map((claim) => store.keyClaim(claim)))
  expect(verdicts.map(({ kind }) => kind)).toEqual(wanted.map(() => 'execute'))
})

test('texts of any kind come through a batch as they are', async () => {
  const { store, count } = setup()
  const odd = ['NULL', 'null', '', '"', '\\', '{a,b}', "it's", 'ünï💥', '\n\t', '$1', '\\x41', ' lead and trail ']
  const wanted = odd.filter((key) => key !== '').map((key) => aClaim({ key, scope: `s${key}`, tenant: `${crypto.randomUUID()}${key}` }))
  const held = await Promise.all(wanted.map((claim) => take(store, claim)))
  const headers = (key: string): [string, string][] => [['x-odd', encodeURIComponent(key)]]
  await Promise.all(
    held.map((each, index) => {
      const key = wanted[index]?.key as string
      const answer = { status: 200, headers: headers(key), body: new TextEncoder().encode(key) }
      return store.keyFinish(aFinish(each, { answer, reason: key }))
    }),
  )
  expect(count(batchedClaim) + count(batchedWrite)).toBeGreaterThanOrEqual(2)
  for (const claim of wanted) {
    const record = await store.keyRead(claim)
    expect([record?.key, record?.scope, record?.reason]).toEqual([claim.key, claim.scope, claim.key])
    expect(Buffer.from(record?.answer?.body ?? []).toString()).toBe(claim.key)
    expect(record?.answer?.headers).toEqual(headers(claim.key))
  }
})

test('goes by the primary key, in a table that nobody has analysed, and when it has grown', async () => {
  const plans: string[] = []
  const connection = fromPg(database.pool)
  const explained: Connection<unknown> = {
    ...(connection as Connection<unknown>),
    async query(text, values) {
      if (/unnest/.test(text)) plans.push(JSON.stringify(await connection.query(`explain ${text}`, values)))
      return connection.query(text, values)
    },
  }
  await database.pool.query(`
    insert into oncekey.keys (tenant, id, scope, key, state, incarnation, owner, fence, after_failure, created_at, locked_until, due_at, expires_at, reap_after)
    select 'many', gen_random_uuid(), 's', n::text, 'processing', gen_random_uuid(), gen_random_uuid(), 1, 'rerun', now(), now(), now(), now(), now()
    from generate_series(1, 20000) as n`)
  const store = postgresStore(explained)
  await store.keyClaim(aClaim())
  const held = await Promise.all(claims(60).map((claim) => take(store, claim)))
  await Promise.all(held.map((each) => store.keyFinish(aFinish(each))))
  expect(plans).toHaveLength(2)
  for (const plan of plans) {
    expect(plan).toContain('keys_pkey')
    expect(plan).not.toContain('Seq Scan on keys')
  }
})
