// More than one server: the whole contract on a cluster, whose keys live on three of them; and Sentinel, which only says where the server is.
import { createCluster, createSentinel } from '@redis/client'
import { Cluster, Redis } from 'ioredis'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { fromIoredis, fromNodeRedis, redisStore } from '../../src/stores/redis/index.js'
import { exerciseStore } from '../../src/testing/index.js'
import { aClaim } from '../../src/testing/store-cases/store-case.js'
import { startRedisCluster, startRedisSentinel } from '../support/redis-cluster.js'
import { keepsBytes, redisHarness } from '../support/redis-harness.js'

describe('on a cluster of three', async () => {
  const cluster = await startRedisCluster()
  afterAll(() => cluster.stop())

  describe('through ioredis', () => {
    const client = new Cluster([...cluster.nodes])
    afterAll(() => client.disconnect())
    exerciseStore({ test, setup: () => redisHarness(fromIoredis(client)) })

    test('keeps its keys on all of them', async () => {
      const store = redisStore(fromIoredis(client), { prefix: 'spread:' })
      await Promise.all(Array.from({ length: 60 }, () => store.keyClaim(aClaim())))
      const counts = await Promise.all(client.nodes('master').map((node) => node.dbsize()))
      expect(counts).toHaveLength(3)
      expect(Math.min(...counts)).toBeGreaterThan(0)
    })
  })

  describe('through node-redis', async () => {
    const client = createCluster({ rootNodes: cluster.nodes.map(({ host, port }) => ({ url: `redis://${host}:${port}` })) })
    await client.connect()
    afterAll(() => client.destroy())
    exerciseStore({ test, setup: () => redisHarness(fromNodeRedis(client)) })
  })
})

describe('behind Sentinel', async () => {
  const sentinel = await startRedisSentinel()
  afterAll(() => sentinel.stop())

  test('works through ioredis', async () => {
    const client = new Redis({ sentinels: [...sentinel.nodes], name: 'primary' })
    onTestFinished(() => client.disconnect())
    await keepsBytes(redisHarness(fromIoredis(client)).store)
  })

  test('works through node-redis', async () => {
    const client = await createSentinel({ name: 'primary', sentinelRootNodes: [...sentinel.nodes] }).connect()
    onTestFinished(() => client.destroy())
    await keepsBytes(redisHarness(fromNodeRedis(client)).store)
  })
})
