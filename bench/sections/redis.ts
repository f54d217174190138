import { Redis as IoRedis } from 'ioredis'
import type { KeyStore } from 'oncekey'
import { fromPg, postgresStore } from 'oncekey/postgres'
import { fromIoredis, redisFilter, redisStore } from 'oncekey/redis'
import type { Contender, Group } from '../harness/contender.js'
import { type CpuMeter, unknownCpu } from '../harness/cpu.js'
import { closedLoop } from '../harness/load.js'
import type { Redis } from '../harness/redis.js'
import { interleave, type Rounds } from '../harness/rounds.js'
import type { BenchServer } from '../harness/server.js'
import { type Service, startService } from '../http/start-service.js'
import { warmUp } from '../http/warm-up.js'
import { findWrk, noWrk } from '../http/wrk.js'
import { claimOf } from './store.js'
import { redisHttpTitle, redisTitle, type Way } from './titles.js'

const redisNames = {
  postgres: 'postgresStore',
  filter: 'redisFilter in front of postgresStore',
  redis: 'redisStore, Redis in memory',
  bare: 'Fastify, bare',
  httpPostgres: 'Fastify, postgresStore',
  httpFilter: 'Fastify, redisFilter in front of postgresStore',
} as const

const secrets = [{ id: 'bench', key: Buffer.alloc(32, 'bench') }]
const retention = { ms: 86_400_000, floorMs: 3_600_000, from: 'creation' } as const
const answer = { status: 201, headers: [['content-type', 'application/json']] as [string, string][], body: Buffer.alloc(300, 'a') }
/** So many keys are replayed in turn. */
const hotKeys = 1_000

/** Postgres alone, Redis in front of it, and Redis alone: new keys and replays at the store, replays over HTTP. */
export async function measureRedis(server: BenchServer, redis: Redis, options: Rounds & { notes: string[] }): Promise<Group[]> {
  return [...(await atTheStore(server, redis, options)), ...(await overHttp(server, redis, options))]
}

async function atTheStore(server: BenchServer, redis: Redis, { rounds, seconds }: Rounds): Promise<Group[]> {
  const client = new IoRedis(redis.port, '127.0.0.1')
  const connection = fromIoredis(client)
  const postgres = postgresStore(fromPg(server.pool(16)))
  const stores: [string, KeyStore, CpuMeter][] = [
    [redisNames.postgres, postgres, server.cpu],
    [redisNames.filter, redisFilter(postgresStore(fromPg(server.pool(16))), connection, { secrets }), both(server.cpu, redis.cpu)],
    [redisNames.redis, redisStore(connection), redis.cpu],
  ]
  const contenders = (operation: (store: KeyStore, name: string) => Promise<void>): Contender[] =>
    stores.map(([name, store, cpu]) => ({ name, run: (turn) => closedLoop(turn, cpu, () => operation(store, name)) }))
  const prepare = async () => {
    await Promise.all([server.reset(), redis.reset()])
  }
  const groups: Group[] = []
  for (const outstanding of [1, 64]) {
    const title = redisTitle('new keys', outstanding)
    groups.push(
      await interleave({
        title,
        outstanding,
        rounds,
        seconds,
        prepare,
        contenders: contenders((store) => run(store, crypto.randomUUID())),
      }),
    )
  }
  await prepare()
  // Each name is a tenant of its own: the first two share a database.
  for (const [name, store] of stores) await Promise.all(Array.from({ length: hotKeys }, (_, at) => run(store, `hot-${at}`, name)))
  let next = 0
  for (const outstanding of [1, 64]) {
    const replay = async (store: KeyStore, name: string) => {
      next = (next + 1) % hotKeys
      const { kind } = await store.keyClaim(claimOf(`hot-${next}`, name))
      if (kind !== 'replay') throw new Error(`a finished key was claimed, and the verdict is "${kind}"`)
    }
    groups.push(
      await interleave({ title: redisTitle('replays', outstanding), outstanding, rounds, seconds, contenders: contenders(replay) }),
    )
  }
  client.disconnect()
  return groups
}

async function overHttp(server: BenchServer, redis: Redis, { rounds, seconds, notes }: Rounds & { notes: string[] }): Promise<Group[]> {
  const load = await findWrk()
  if (!load) {
    notes.push(noWrk('what is replayed over HTTP with and without Redis'))
    return []
  }
  const start = async (name: string, way: Way, cpu: CpuMeter) =>
    [name, await startService({ framework: 'fastify', way, databaseUrl: server.url, redisUrl: redis.url }), cpu] as const
  const services: (readonly [string, Service, CpuMeter])[] = [
    await start(redisNames.bare, 'bare', unknownCpu),
    await start(redisNames.httpPostgres, 'oncekey', server.cpu),
    await start(redisNames.httpFilter, 'oncekey behind Redis', both(server.cpu, redis.cpu)),
  ]
  await warmUp(
    load,
    services.map(([, service]) => service),
    seconds,
  )
  const contenders = services.map(([name, service, cpu]): Contender => {
    const prefix = crypto.randomUUID()
    return { name, run: (turn) => load(service, turn, { mode: 'replay', prefix }, cpu) }
  })
  const groups: Group[] = []
  for (const outstanding of [64, 256]) {
    groups.push(await interleave({ title: redisHttpTitle(outstanding), outstanding, rounds, seconds, contenders }))
  }
  for (const [, service] of services) await service.stop()
  return groups
}

const both =
  (one: CpuMeter, other: CpuMeter): CpuMeter =>
  () =>
    one() + other()

async function run(store: KeyStore, key: string, tenant = 'bench'): Promise<void> {
  const verdict = await store.keyClaim(claimOf(key, tenant))
  if (verdict.kind !== 'execute') throw new Error(`a new key was claimed, and the verdict is "${verdict.kind}"`)
  const result = await store.keyFinish({ lease: verdict.lease, state: 'complete', answer, retention })
  if (result !== 'done') throw new Error(`a key was finished, and the result is "${result}"`)
}
