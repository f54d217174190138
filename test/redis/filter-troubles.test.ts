import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import { describe, expect, test } from 'vitest'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { fromIoredis, type RedisConnection, redisFilter } from '../../src/stores/redis/index.js'
import { aClaim, aFinish, again, assertReplays, take } from '../../src/testing/store-cases/store-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { startRedis } from '../support/redis.js'
import { waitUntil } from '../support/wait-until.js'
import { secrets, useFilter } from './filter-setup.js'

const database = useDatabase()
const { setup, redis, connection } = await useFilter(database)

describe('a Redis that lies', () => {
  test('is not believed: forged, damaged, cut off, another key’s, another kind of thing', async () => {
    const { store, finished, nameOf, entryOf, asked, types, events } = await setup()
    const claim = await finished()
    const other = await finished()
    const entry = await entryOf(claim)
    const flipped = Buffer.from(entry)
    flipped[entry.length - 1] = (flipped.at(-1) as number) ^ 1
    const lies = [flipped, entry.subarray(0, -1), entry.subarray(0, 40), await entryOf(other), randomBytes(200), '', '{"status":200}']
    for (const lie of lies) {
      asked.length = 0
      events.length = 0
      await redis.set(nameOf(claim), lie)
      await assertReplays(store, claim)
      expect([asked, types()]).toEqual([['claim'], ['refused']])
      // It was told better by then.
      await waitUntil('the entry is mended', async () => (await redis.getBuffer(nameOf(claim)))?.length === entry.length)
    }
    await redis.del(nameOf(claim))
    await redis.hset(nameOf(claim), 'a', 'hash')
    await assertReplays(store, claim)
    expect(types().at(-1)).toBe('unanswered')
  })

  test('is not believed with a secret that is not, or no longer, ours; an older one may stay in the ring', async () => {
    const { finished, anotherFilter, asked } = await setup()
    const claim = await finished()
    const rotated = [{ id: 's2', key: randomBytes(32) }]
    const stranger = await anotherFilter({ secrets: rotated })
    await stranger.warmUp()
    await assertReplays(stranger.store, claim)
    expect([asked, stranger.types()]).toEqual([['claim'], ['refused']])

    const next = await finished()
    const knowing = await anotherFilter({ secrets: [...rotated, ...secrets] })
    await knowing.warmUp()
    await assertReplays(knowing.store, next)
    expect([asked, knowing.types()]).toEqual([[], ['served']])
  })
})

describe('a Redis in trouble', () => {
  test('one that hangs delays a few requests by the time-out, and is then left alone', async () => {
    let hanging = false
    let sent = 0
    const hangs: RedisConnection = {
      send(key, command) {
        sent += 1
        return hanging ? new Promise(() => {}) : connection.send(key, command)
      },
    }
    const events: string[] = []
    const inner = postgresStore(fromPg(database.pool))
    const store = redisFilter(inner, hangs, { secrets, timeout: '20ms', onEvent: ({ type }) => events.push(type) })
    const claim = aClaim()
    await store.keyFinish(aFinish(await take(store, claim)))
    await waitUntil('the filter serves', async () => (await store.keyClaim(again(claim))) && events.at(-1) === 'served')
    hanging = true
    sent = 0
    events.length = 0
    for (let request = 0; request < 200; request += 1) await assertReplays(store, claim)
    expect(new Set(events)).toEqual(new Set(['unanswered']))
    // Five in a row, and one a second after that, however long this took.
    expect(sent).toBeLessThan(100)
    hanging = false
    await waitUntil('it is asked again', async () => (await store.keyClaim(again(claim))) && events.at(-1) === 'served')
  })

  test('one that is gone costs nothing but time', async () => {
    const dead = await startRedis('none')
    const client = new Redis(dead.url, { retryStrategy: () => 50 })
    client.on('error', () => {})
    const store = redisFilter(postgresStore(fromPg(database.pool)), fromIoredis(client), { secrets })
    const claim = aClaim()
    const held = await take(store, claim)
    await dead.kill()
    expect((await store.keyClaim(again(claim))).kind).toBe('in-progress')
    await store.keyFinish(aFinish(held))
    await assertReplays(store, claim)
    await assertReplays(store, claim)
    client.disconnect()
    await dead.stop()
  })

  test('a listener that throws changes nothing', async () => {
    const store = redisFilter(postgresStore(fromPg(database.pool)), connection, {
      secrets,
      onEvent: () => {
        throw new Error('a listener')
      },
    })
    const claim = aClaim()
    await store.keyFinish(aFinish(await take(store, claim)))
    await assertReplays(store, claim)
  })
})
