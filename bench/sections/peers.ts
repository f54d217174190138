import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency'
import { CachePersistenceLayer } from '@aws-lambda-powertools/idempotency/cache'
import { Idempotency } from '@node-idempotency/core'
import { RedisStorageAdapter } from '@node-idempotency/storage-adapter-redis'
import { createClient } from '@redis/client'
import { Redis as IoRedis } from 'ioredis'
import type { Contender } from '../harness/contender.js'
import { closedLoop } from '../harness/load.js'
import type { Redis } from '../harness/redis.js'

export type Kept = 'in memory' | 'AOF always'

export const peerNames = {
  nodeIdempotency: (kept: Kept) => `@node-idempotency/core, Redis ${kept}`,
  powertools: (kept: Kept) => `Powertools, Redis ${kept}`,
  handWritten: (kept: Kept) => `ioredis SET NX, SET by hand, Redis ${kept}`,
} as const

const body = { id: 'ord_1', note: 'a'.repeat(280) }
const ttlMs = 86_400_000

/** Libraries that keep their keys in Redis, in their documented use: a new key is claimed and finished with an answer of 300 bytes. */
export async function redisContenders(redis: Redis, kept: Kept): Promise<{ contenders: Contender[]; stop(): Promise<void> }> {
  const adapter = new RedisStorageAdapter({ url: redis.url })
  await adapter.connect()
  const idempotency = new Idempotency(adapter)
  const client = createClient({ url: redis.url })
  await client.connect()
  let handled = 0
  // In Lambda it has a context; without one it would complain with every request.
  const config = new IdempotencyConfig({})
  config.registerLambdaContext({ getRemainingTimeInMillis: () => 60_000 } as never)
  const powertools = makeIdempotent(
    async (_order: { key: string; item: string; quantity: number }) => {
      handled += 1
      return body
    },
    { persistenceStore: new CachePersistenceLayer({ client }), config },
  )
  const byHand = new IoRedis(redis.port, '127.0.0.1')

  const requestWith = (key: string) => ({
    headers: { 'idempotency-key': key },
    ...{ path: '/orders', method: 'POST', body: { item: 'tea', quantity: 2 } },
  })
  const answer = { body, additional: { statusCode: 201 } }
  await check()

  const contender = (name: string, operation: () => Promise<unknown>): Contender => ({
    name,
    run: (turn) => closedLoop(turn, redis.cpu, operation),
  })
  return {
    contenders: [
      contender(peerNames.nodeIdempotency(kept), async () => {
        const request = requestWith(crypto.randomUUID())
        if (await idempotency.onRequest(request)) throw new Error('a new key was known already')
        await idempotency.onResponse(request, answer)
      }),
      contender(peerNames.powertools(kept), () => powertools({ key: crypto.randomUUID(), item: 'tea', quantity: 2 })),
      contender(peerNames.handWritten(kept), async () => {
        const key = crypto.randomUUID()
        if ((await byHand.set(key, 'processing', 'PX', 60_000, 'NX')) !== 'OK') throw new Error('a new key was known already')
        await byHand.set(key, JSON.stringify(body), 'PX', ttlMs)
      }),
    ],
    async stop() {
      await adapter.disconnect()
      await client.close()
      byHand.disconnect()
    },
  }

  /** A library that was not told where its key is would do nothing, and win. */
  async function check(): Promise<void> {
    const request = requestWith('twice')
    await idempotency.onRequest(request)
    await idempotency.onResponse(request, answer)
    if (!(await idempotency.onRequest(request))) throw new Error('@node-idempotency/core does not replay')
    for (let time = 0; time < 2; time += 1) await powertools({ key: 'twice', item: 'tea', quantity: 2 })
    if (handled !== 1) throw new Error(`Powertools ran a request ${handled} times`)
    await redis.reset()
  }
}
