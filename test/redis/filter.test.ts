import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { createFingerprinter } from '../../src/core/fingerprint/fingerprint.js'
import { createOnce, reply } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { redisFilter, redisStore } from '../../src/stores/redis/index.js'
import { aClaim, aFinish, again, assertReplays, fingerprintOf, leaseMs, take } from '../../src/testing/store-cases/store-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { secrets, useFilter } from './filter-setup.js'

const database = useDatabase()
const { setup, redis, connection } = await useFilter(database)

describe('what needs no database', () => {
  test('a retry of what is finished, in this process and in others', async () => {
    const { finished, store, anotherFilter, asked } = await setup()
    const elsewhere = await anotherFilter()
    const claim = await finished()
    await assertReplays(store, claim)
    await assertReplays(elsewhere.store, claim)
    expect(await elsewhere.store.keyPeek(again(claim))).toMatchObject({ kind: 'replay', incarnation: claim.owner })
    expect(await elsewhere.store.keyEnqueue(again(claim))).toMatchObject({ kind: 'replay', incarnation: claim.owner })
    expect(asked).toEqual([])
  })

  test('a retry of what is finished, once the database has told it, also if Redis has forgotten', async () => {
    const { finished, store, asked, nameOf, entryOf } = await setup()
    const claim = await finished()
    await redis.del(nameOf(claim))
    await assertReplays(store, claim)
    expect(asked).toEqual(['claim'])
    await entryOf(claim)
    await assertReplays(store, claim)
    expect(asked).toEqual(['claim'])
  })

  test('a retry of what is under way, with the time that is left', async () => {
    const { store, anotherFilter, asked, entryOf } = await setup()
    const elsewhere = await anotherFilter()
    const claim = aClaim()
    const held = await take(store, claim)
    await entryOf(claim)
    asked.length = 0
    for (const filter of [store, elsewhere.store]) {
      const verdict = await filter.keyClaim(again(claim))
      const leftMs = verdict.kind === 'in-progress' ? verdict.retryAfterMs : 0
      expect(leftMs).toBeGreaterThan(leaseMs - 60_000)
      expect(leftMs).toBeLessThanOrEqual(leaseMs)
    }
    expect(asked).toEqual([])
    await store.keyFinish(aFinish(held))
    await assertReplays(elsewhere.store, claim)
    expect(asked).toEqual([])
  })

  test('a stored failure', async () => {
    const { store, asked, entryOf } = await setup()
    const claim = aClaim()
    await store.keyFinish(aFinish(await take(store, claim), { state: 'failed', answer: reply(500) }))
    await entryOf(claim)
    asked.length = 0
    expect(await store.keyClaim(again(claim))).toMatchObject({ kind: 'replay', state: 'failed', answer: { status: 500 } })
    expect(asked).toEqual([])
  })
})

describe('what only the database says', () => {
  test('who runs: an empty Redis lets nobody in', async () => {
    const { store, nameOf } = await setup()
    const claim = aClaim()
    await take(store, claim)
    await redis.del(nameOf(claim))
    expect((await store.keyClaim(again(claim))).kind).toBe('in-progress')
  })

  test('that another request had this key: it names the part', async () => {
    const { finished, store, asked } = await setup()
    const claim = await finished()
    expect(await store.keyClaim(again(claim, { fingerprint: fingerprintOf('another') }))).toEqual({ kind: 'mismatch', part: 'body' })
    expect(asked).toEqual(['claim'])
  })

  test('what a request without a fingerprint was, to one that has one', async () => {
    const { finished, store, asked } = await setup()
    const claim = await finished({ fingerprint: null })
    await assertReplays(store, claim)
    expect(asked).toEqual([])
    expect((await store.keyClaim(again(claim, { fingerprint: fingerprintOf('any') }))).kind).toBe('replay')
    expect(asked).toEqual(['claim'])
  })

  test('that fingerprints cannot be compared', async () => {
    const { finished, store } = await setup()
    const secret = (id: string) => ({ secrets: [{ id, secret: 'a secret of good length' }] })
    const claim = await finished({ fingerprint: createFingerprinter(secret('gone'))({ value: 1 }) })
    const retry = again(claim, { fingerprint: createFingerprinter(secret('new'))({ value: 1 }) })
    await expect(store.keyClaim(retry)).rejects.toMatchObject({ code: 'fingerprint_incomparable' })
  })

  test('that a claim is its own, whose acknowledgement was lost', async () => {
    const { store, entryOf } = await setup()
    const claim = aClaim()
    const first = await take(store, claim)
    await entryOf(claim)
    expect((await take(store, claim)).lease).toEqual(first.lease)
  })

  test('what a worker may do', async () => {
    const { finished, store, asked } = await setup()
    const claim = await finished()
    expect((await store.keyClaim(again(claim, { worker: true, fingerprint: null }))).kind).toBe('replay')
    expect(asked).toEqual(['claim'])
  })

  test('answers that are too large', async () => {
    const { store, asked, nameOf } = await setup({ maxAnswerBytes: 1_000 })
    const claim = aClaim()
    const answer = reply(200, new Uint8Array(1_001))
    await store.keyFinish(aFinish(await take(store, claim), { answer }))
    await assertReplays(store, claim, answer)
    await assertReplays(store, claim, answer)
    expect(asked.filter((verb) => verb === 'claim')).toHaveLength(3)
    expect(await redis.get(nameOf(claim))).toBeNull()
  })

  test('what the first answer was, when a finish is asked twice', async () => {
    const { store, nameOf } = await setup()
    const claim = aClaim()
    const held = await take(store, claim)
    await store.keyFinish(aFinish(held))
    await redis.del(nameOf(claim))
    // It is taken for the same one, and was not.
    expect(await store.keyFinish(aFinish(held, { answer: reply(200, 'another') }))).toBe('done')
    await assertReplays(store, claim)
  })
})

describe('in an instance', () => {
  const options = { tenant: 't', scope: 's', fingerprint: false, afterFailure: 'rerun' } as const

  test('what is encrypted in the database is encrypted in Redis, and opened on the way out', async () => {
    const { store, asked, entryOf } = await setup()
    const once = createOnce({ store, encryption: { keys: [{ id: 'k', key: randomBytes(32) }] } })
    const ref = { ...options, key: crypto.randomUUID() }
    const answer = reply(200, { card: 'very secret' }, { 'x-token': 'very secret' })
    await once.execute(ref, () => answer)
    const entry = await entryOf(ref)
    expect(entry.toString('latin1')).not.toContain('very secret')
    asked.length = 0
    const replayed = await once.execute(ref, () => reply(500))
    expect(replayed).toMatchObject({ kind: 'replayed', answer: { status: 200, headers: answer.headers } })
    expect(replayed.kind === 'replayed' && Buffer.from(replayed.answer.body).toString()).toContain('very secret')
    expect(asked).toEqual([])
  })

  test('everything else of the store is there: operations, background work, and what it may learn yet', async () => {
    const inner = { ...postgresStore(fromPg(database.pool)), somethingNew: () => 'passes' }
    const store = redisFilter(inner, connection, { secrets })
    expect(store.somethingNew()).toBe('passes')
    expect(Object.keys(store).sort()).toEqual(Object.keys(inner).sort())
    expect(Object.keys(store.steps).sort()).toEqual(Object.keys(inner.steps).sort())
    expect(store.upkeep).toBe(inner.upkeep)
    const once = createOnce({ store })
    const operation = once.operation('filtered', {}, async (run) => run.finish(async () => reply(201, { phase: await Promise.resolve(1) })))
    const request = { tenant: 't', key: crypto.randomUUID(), input: null }
    expect((await operation.run(request)).kind).toBe('executed')
    expect((await operation.run(request)).kind).toBe('replayed')
  })
})

test('refuses options that cannot work', () => {
  const inner = postgresStore(fromPg(database.pool))
  const create = (changes: object, store: Parameters<typeof redisFilter>[0] = inner) =>
    redisFilter(store, connection, { secrets, ...changes })
  expect(() => create({ secrets: [] })).toThrow('secrets is a list of at least one { id, key }; the first one signs.')
  expect(() => create({ secrets: [{ id: 's', key: 'password' }] })).toThrow('The secret s is not 32 bytes')
  expect(() => create({ prefix: '' })).toThrow('prefix is ""')
  expect(() => create({ timeout: '0ms' })).toThrow('timeout')
  expect(() => create({ keepFor: 0 })).toThrow('keepFor')
  expect(() => create({ maxAnswerBytes: -1 })).toThrow('maxAnswerBytes')
  expect(() => create({}, memoryStore())).toThrow('redisFilter needs a durable store')
  expect(() => create({}, redisStore(connection))).toThrow('redisFilter needs a durable store')
})
