// The filter keeps the contract of the store that it stands in front of.
import { Redis } from 'ioredis'
import { afterAll, test } from 'vitest'
import { fromIoredis } from '../../src/stores/redis/index.js'
import { exerciseStore } from '../../src/testing/index.js'
import { filterSetup } from '../redis/filter-setup.js'
import { useDatabase } from '../support/postgres/database.js'
import { redisForTests } from '../support/redis.js'

const database = useDatabase()
const server = await redisForTests()
const client = new Redis(server.url)
afterAll(async () => {
  client.disconnect()
  await server.stop()
})

exerciseStore({ test, setup: () => filterSetup(database.pool, fromIoredis(client)) })
