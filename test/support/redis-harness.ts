import type { Store } from '../../src/index.js'
import { type RedisConnection, type RedisStoreOptions, redisStore } from '../../src/stores/redis/index.js'
import type { StoreHarness } from '../../src/testing/index.js'
import { aClaim, aFinish, assertReplays, take } from '../../src/testing/store-cases/store-case.js'

/** Every moment a store keeps is compared with Redis's clock, so keys that are moved back live later. */
const moveBack = `
for _, field in ipairs({ 'leaseUntil', 'createdAt', 'expiresAt' }) do
  local at = redis.call('HGET', KEYS[1], field)
  if at and at ~= 'inf' then redis.call('HSET', KEYS[1], field, string.format('%.0f', at - ARGV[1])) end
end
local left = redis.call('PTTL', KEYS[1])
if left >= 0 then redis.call('PEXPIRE', KEYS[1], string.format('%.0f', left - ARGV[1])) end
`

/** What `exerciseStore()` needs of a Redis store, over any connection. Each has keys of its own. */
export function redisHarness(connection: RedisConnection, options: RedisStoreOptions = {}): StoreHarness {
  const keys = new Set<string>()
  const watched: RedisConnection = {
    send(key, command) {
      keys.add(key)
      return connection.send(key, command)
    },
  }
  return {
    store: redisStore(watched, { prefix: `oncekey-test:${crypto.randomUUID()}:`, ...options }),
    async advance(ms) {
      await Promise.all([...keys].map((key) => connection.send(key, ['EVAL', moveBack, '1', key, String(ms)])))
    },
  }
}

/** For clients that differ from one that has passed the whole contract in how commands are sent, and in nothing else. */
export async function keepsBytes(store: Store): Promise<void> {
  const claim = aClaim({ request: Uint8Array.of(0, 255) })
  const answer = { status: 200, headers: [], body: Uint8Array.from({ length: 256 }, (_, index) => index) }
  await store.keyFinish(aFinish(await take(store, claim), { answer }))
  await assertReplays(store, claim, answer)
}
