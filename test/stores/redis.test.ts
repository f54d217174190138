import { createRequire } from 'node:module'
import { createClient, createClientPool } from '@redis/client'
import { Redis } from 'ioredis'
import { afterAll, describe, onTestFinished, test } from 'vitest'
import { fromIoredis, fromNodeRedis } from '../../src/stores/redis/index.js'
import { exerciseStore } from '../../src/testing/index.js'
import { redisForTests } from '../support/redis.js'
import { keepsBytes, redisHarness } from '../support/redis-harness.js'

const server = await redisForTests()
afterAll(() => server.stop())

describe('through ioredis', () => {
  const client = new Redis(server.url)
  afterAll(() => client.disconnect())
  exerciseStore({ test, setup: () => redisHarness(fromIoredis(client)) })
})

describe('through node-redis', async () => {
  const client = await createClient({ url: server.url }).connect()
  afterAll(() => client.destroy())
  exerciseStore({ test, setup: () => redisHarness(fromNodeRedis(client)) })
})

test('works through a pool of node-redis', async () => {
  const pool = createClientPool({ url: server.url })
  await pool.connect()
  onTestFinished(() => pool.destroy())
  await keepsBytes(redisHarness(fromNodeRedis(pool)).store)
})

describe('through node-redis 4', async () => {
  // The release that another library brought along.
  const older = createRequire(createRequire(import.meta.url).resolve('@node-idempotency/storage-adapter-redis'))('redis')
  const client = older.createClient({ url: server.url })
  await client.connect()
  afterAll(() => client.disconnect())
  exerciseStore({ test, setup: () => redisHarness(fromNodeRedis(client)) })
})
