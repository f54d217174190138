import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import type pg from 'pg'
import { afterAll } from 'vitest'
import { systemClock } from '../../src/core/clock.js'
import { keyId, type Store } from '../../src/index.js'
import { type FilterEvent, fromIoredis, type RedisConnection, type RedisFilterOptions, redisFilter } from '../../src/stores/redis/index.js'
import { aClaim, aFinish, again, take } from '../../src/testing/store-cases/store-case.js'
import { connectionTo } from '../support/postgres/connection.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import { startRedis } from '../support/redis.js'
import { waitUntil } from '../support/wait-until.js'

export const secrets = [{ id: 's1', key: randomBytes(32) }]

/** The filter over a real database, where time passes by `advance()` for the database, and for the clocks of the filter's process. */
export async function filterSetup(pool: pg.Pool, redis: RedisConnection, options: Partial<RedisFilterOptions> = {}) {
  const harness = await postgresHarness(connectionTo(pool))
  let passedMs = 0
  const clock = { ...systemClock, now: () => Date.now() + passedMs, monotonic: () => performance.now() + passedMs }
  /** What the database was asked. */
  const asked: string[] = []
  const counted = {
    ...harness.store,
    keyClaim: (claim) => {
      asked.push('claim')
      return harness.store.keyClaim(claim)
    },
    keyPeek: (claim) => {
      asked.push('peek')
      return harness.store.keyPeek(claim)
    },
    keyEnqueue: (claim) => {
      asked.push('enqueue')
      return harness.store.keyEnqueue(claim)
    },
    // The rows were moved back; in their time it is later than the database's clock shows.
    keyReadById: async (wanted) => {
      const seen = await harness.store.keyReadById(wanted)
      return seen && { ...seen, now: seen.now + passedMs }
    },
  } satisfies Partial<Store<pg.PoolClient>> as Store<pg.PoolClient>
  const prefix = `oncekey-test:${crypto.randomUUID()}:`

  /** Another process has a filter of its own, on the same Redis and database. */
  async function anotherFilter(more: Partial<RedisFilterOptions> = {}) {
    const events: FilterEvent[] = []
    const onEvent = (event: FilterEvent) => events.push(event)
    const store = redisFilter(counted, redis, { secrets, prefix, clock, timeout: '5s', onEvent, ...options, ...more })
    /** It serves nothing before it knows the database's clock, which it learns from a claim. */
    const warmUp = async () => {
      const claim = aClaim()
      await store.keyFinish(aFinish(await take(store, claim)))
      await waitUntil('the filter serves', async () => {
        await store.keyClaim(again(claim))
        return events.at(-1)?.type === 'served'
      })
      asked.length = 0
      events.length = 0
    }
    if (more.secrets === undefined && options.timeout === undefined) await warmUp()
    const types = () => events.map(({ type }) => type)
    return { store: { ...store, keyReadById: harness.store.keyReadById }, events, types, warmUp }
  }

  return {
    ...(await anotherFilter()),
    anotherFilter,
    asked,
    prefix,
    ...(harness.marks ? { marks: harness.marks } : {}),
    async advance(ms: number) {
      await harness.advance(ms)
      passedMs += ms
    },
  }
}

/** A Redis for the test file that calls this, and the filter between it and the file's database. */
export async function useFilter(database: TestDatabase) {
  const server = await startRedis('none')
  const redis = new Redis(server.url)
  const connection = fromIoredis(redis)
  afterAll(async () => {
    redis.disconnect()
    await server.stop()
  })

  async function setup(options: Partial<RedisFilterOptions> = {}) {
    const bundle = await filterSetup(database.pool, connection, options)
    const nameOf = (claim: Parameters<typeof keyId>[0]) => `${bundle.prefix}${keyId(claim)}`
    /** What Redis has of a key, once it has it. */
    const entryOf = (claim: Parameters<typeof keyId>[0]) => waitUntil('Redis has it', () => redis.getBuffer(nameOf(claim)))
    /** A key that is finished, and told by Redis. */
    const finished = async (changes: Parameters<typeof aClaim>[0] = {}) => {
      const claim = aClaim(changes)
      await bundle.store.keyFinish(aFinish(await take(bundle.store, claim)))
      await entryOf(claim)
      bundle.asked.length = 0
      bundle.events.length = 0
      return claim
    }
    return { ...bundle, nameOf, entryOf, finished }
  }

  return { setup, redis, connection }
}
