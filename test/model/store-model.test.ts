import fc from 'fast-check'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { memoryStore } from '../../src/stores/memory/index.js'
import { fromIoredis } from '../../src/stores/redis/index.js'
import { manualClock, type StoreHarness } from '../../src/testing/index.js'
import { hour, leaseMs } from '../../src/testing/store-cases/store-case.js'
import { filterSetup } from '../redis/filter-setup.js'
import { connectionTo } from '../support/postgres/connection.js'
import { useDatabase } from '../support/postgres/database.js'
import { emptyHarness } from '../support/postgres/harness.js'
import { redisForTests } from '../support/redis.js'
import { redisHarness } from '../support/redis-harness.js'
import { Advance, Claim, Enqueue, type Model, Reap, Write } from './store-model.js'

const database = useDatabase()
const long = process.env.ONCEKEY_LONG === '1'

const key = fc.constantFrom('a', 'b')
const commands = fc.commands(
  [
    fc
      .tuple(key, fc.constantFrom(1, 1, 1, 2), fc.constantFrom('rerun', 'rerun', 'store', 'park'), fc.constantFrom(false, false, true))
      .map(([k, body, then, worker]) => new Claim(k, body, then as 'rerun', worker)),
    fc.tuple(key, fc.constantFrom(1, 1, 1, 2)).map(([k, body]) => new Enqueue(k, body)),
    fc
      .tuple(
        fc.constantFrom('finish', 'finish', 'release', 'park', 'heartbeat', 'heartbeat'),
        key,
        fc.nat(3),
        fc.constantFrom(200, 201, 402),
      )
      .map(([verb, k, age, status]) => new Write(verb as 'finish', k, age, status)),
    fc.constantFrom(1_000, leaseMs / 2, leaseMs + 120_000, 2 * leaseMs, hour, 25 * hour).map((ms) => new Advance(ms)),
    fc.constant(new Reap()),
  ],
  { maxCommands: 60, size: 'max' },
)

/** Any interleaving of claims, enqueues, heartbeats, finishes, releases, parks, reaps and time, from several holders. */
async function explore<Tx>(setup: () => Promise<StoreHarness<Tx>> | StoreHarness<Tx>, numRuns: number) {
  await fc.assert(
    fc.asyncProperty(commands, async (steps) => {
      const harness = await setup()
      const model: Model = { now: 0, keys: new Map() }
      await fc.asyncModelRun(() => ({ model, real: { harness, tenant: `model-${crypto.randomUUID()}` } }), steps)
    }),
    // A failure prints its seed and path; put them here to repeat it.
    { numRuns, verbose: 1 },
  )
}

describe('any interleaving keeps the invariants', () => {
  test('in memory', { timeout: 600_000 }, async () => {
    await explore(
      () => {
        const clock = manualClock()
        return { store: memoryStore({ clock }), advance: (ms) => clock.advance(ms) }
      },
      long ? 50_000 : 600,
    )
  })

  describe('with Redis', () => {
    let server: Awaited<ReturnType<typeof redisForTests>>
    let client: Redis
    beforeAll(async () => {
      server = await redisForTests()
      client = new Redis(server.url)
    })
    afterAll(async () => {
      client.disconnect()
      await server.stop()
    })

    test('alone', { timeout: 1_800_000 }, async () => {
      // The model's time runs for months.
      await explore(() => redisHarness(fromIoredis(client), { keepUnfinished: 'forever' }), long ? 5_000 : 60)
    })

    test('in front of Postgres', { timeout: 1_800_000 }, async () => {
      await explore(() => filterSetup(database.pool, fromIoredis(client)), long ? 500 : 15)
    })
  })

  test('on Postgres', { timeout: 1_800_000 }, async () => {
    await explore(() => emptyHarness(connectionTo(database.pool)), long ? 2_000 : 40)
  })
})
