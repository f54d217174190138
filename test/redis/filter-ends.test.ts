// What the filter tells ends with what it is about.

import { expect, test } from 'vitest'
import { keyId } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { type RedisConnection, redisFilter } from '../../src/stores/redis/index.js'
import { aClaim, aFinish, again, anAnswer, assertReplays, hour, leaseMs, oneDay, take } from '../../src/testing/store-cases/store-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { filterSetup, secrets, useFilter } from './filter-setup.js'

const database = useDatabase()
const { setup, redis, connection } = await useFilter(database)

test('an answer is not told past its retention, and a new life is', async () => {
  const { store, advance, entryOf, anotherFilter } = await setup({ keepFor: '90d' })
  const elsewhere = await anotherFilter()
  const retention = { ms: 2 * hour, from: 'creation', floorMs: hour } as const
  const claim = aClaim({ retention })
  await store.keyFinish(aFinish(await take(store, claim), { retention }))
  await entryOf(claim)
  await advance(2 * hour - 60_000)
  await assertReplays(store, claim)
  await advance(61_000)
  const reborn = again(claim)
  expect((await take(elsewhere.store, reborn)).lease.incarnation).toBe(reborn.owner)
})

test('the time that an answer is told is less than what is left of it, from finish and from replay', async () => {
  const { store, nameOf, entryOf, finished } = await setup({ keepFor: '90d' })
  const claim = await finished()
  // From the finish: the floor is certain, whenever the key was created.
  expect(await redis.pttl(nameOf(claim))).toBeLessThanOrEqual(oneDay.floorMs)
  await redis.del(nameOf(claim))
  const verdict = await store.keyClaim(again(claim))
  await entryOf(claim)
  const told = await store.keyClaim(again(claim))
  const [left, leftLater] = [verdict, told].map((each) => (each.kind === 'replay' ? each.expiresInMs : 0)) as [number, number]
  expect(leftLater).toBeLessThanOrEqual(left)
  expect(leftLater).toBeGreaterThan(oneDay.ms - hour)
  expect(await redis.pttl(nameOf(claim))).toBeLessThanOrEqual(left)
})

test('keepFor ends it earlier', async () => {
  const { nameOf, finished } = await setup({ keepFor: '1m' })
  expect(await redis.pttl(nameOf(await finished()))).toBeLessThanOrEqual(60_000)
})

test('an entry that Redis keeps for too long is not believed', async () => {
  const { store, advance, nameOf, finished, asked } = await setup({ keepFor: '10s' })
  const claim = await finished()
  await redis.persist(nameOf(claim))
  await advance(11_000)
  await assertReplays(store, claim)
  expect(asked).toEqual(['claim'])
})

test('work under way is told for no longer than its lease, then the next request takes over', async () => {
  const { store, advance, nameOf, entryOf } = await setup()
  const claim = aClaim()
  await take(store, claim)
  await entryOf(claim)
  expect(await redis.pttl(nameOf(claim))).toBeLessThanOrEqual(leaseMs)
  await redis.persist(nameOf(claim))
  await advance(leaseMs + 1)
  expect((await take(store, again(claim))).lease.fence).toBe(2)
})

test('a lease that began nobody knows when is not told', async () => {
  let lose = true
  const inner = postgresStore(fromPg(database.pool))
  const lossy: typeof inner = {
    ...inner,
    async keyClaim(claim) {
      const verdict = await inner.keyClaim(claim)
      if (lose && claim.key === 'lost') throw new Error('the acknowledgement was lost')
      return verdict
    },
  }
  const prefix = `${crypto.randomUUID()}:`
  const events: string[] = []
  const filter = redisFilter(lossy, connection, { secrets, prefix, timeout: '5s', onEvent: ({ type }) => events.push(type) })
  const known = aClaim()
  await filter.keyFinish(aFinish(await take(filter, known)))
  await waitUntil('the filter serves', async () => (await filter.keyClaim(again(known))) && events.at(-1) === 'served')
  const claim = aClaim({ key: 'lost' })
  await expect(filter.keyClaim(claim)).rejects.toThrow('lost')
  lose = false
  await take(filter, claim)
  expect(await redis.get(`${prefix}${keyId(claim)}`)).toBeNull()
})

test('a late word that work is under way does not hide its answer', async () => {
  let isSlow = false
  let late: (() => Promise<unknown>) | undefined
  const slow: RedisConnection = {
    send(key, command) {
      if (!isSlow || command[0] !== 'SET') return connection.send(key, command)
      isSlow = false
      late = () => connection.send(key, command)
      return new Promise(() => {})
    },
  }
  const { store, asked } = await filterSetup(database.pool, slow)
  isSlow = true
  const claim = aClaim()
  await store.keyFinish(aFinish(await take(store, claim)))
  await late?.()
  asked.length = 0
  await assertReplays(store, claim)
  expect(asked).toEqual([])
})

test('what is given back or parked is free at once', async () => {
  const { store, entryOf } = await setup()
  const claim = aClaim()
  const first = await take(store, claim)
  await entryOf(claim)
  await store.keyRelease({ lease: first.lease })
  const second = await take(store, again(claim))
  await entryOf(claim)
  await store.keyPark({ lease: second.lease, answer: anAnswer, reason: 'a test' })
  expect((await store.keyClaim(again(claim))).kind).toBe('parked')
})

test('what is finished in a transaction is told as finished once it is committed, and as under way until then', async () => {
  const { store, entryOf } = await setup()
  const claim = aClaim()
  const held = await take(store, claim)
  await entryOf(claim)
  await store.steps?.transaction(async (tx) => {
    expect(await store.steps?.keyFinishWithin(aFinish(held), tx)).toBe('done')
    expect((await store.keyClaim(again(claim))).kind).toBe('in-progress')
  })
  await assertReplays(store, claim)
})
