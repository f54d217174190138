import type { Contender, Group } from '../harness/contender.js'
import { type CpuMeter, unknownCpu } from '../harness/cpu.js'
import type { Redis } from '../harness/redis.js'
import { interleave, type Rounds } from '../harness/rounds.js'
import type { BenchServer } from '../harness/server.js'
import { type Service, type ServiceSettings, startService } from '../http/start-service.js'
import { warmUp } from '../http/warm-up.js'
import { findWrk } from '../http/wrk.js'
import { type HttpMode, httpModes, httpTitle } from './titles.js'

export const httpNames = {
  fastify: 'Fastify, bare',
  fastifyOncekey: 'Fastify, oncekey',
  fastifyCached: 'Fastify, oncekey with an answer cache',
  express: 'Express, bare',
  expressOncekey: 'Express, oncekey',
  fastifyNodeIdempotency: 'Fastify, @node-idempotency/core, Redis in memory',
  fastifyNodeIdempotencyAlways: 'Fastify, @node-idempotency/core, Redis AOF always',
  expressIdempotency: 'Express, express-idempotency, Redis in memory',
} as const

/** `redis`: also what is guarded with it. */
export async function measureHttp(
  server: BenchServer,
  { rounds, seconds, redis, notes }: Rounds & { redis: { inMemory: Redis; always: Redis } | undefined; notes: string[] },
): Promise<Group[]> {
  const wrk = await findWrk()
  if (!wrk) {
    notes.push('wrk is not on the PATH (on Debian: apt-get install wrk): the HTTP section is left out.')
    return []
  }
  const load = wrk
  const services = new Map<string, Service>()
  const cpus = new Map<string, CpuMeter>()
  const start = async (name: string, settings: Omit<ServiceSettings, 'databaseUrl' | 'redisUrl'>, behind?: Redis) => {
    services.set(name, await startService({ ...settings, databaseUrl: server.url, redisUrl: behind?.url }))
    cpus.set(name, behind?.cpu ?? server.cpu)
  }
  const startPeer = (...peer: Parameters<typeof start>) =>
    start(...peer).catch((error: Error) => notes.push(`${peer[1].guard} does not run here: ${error.message}`))
  await start(httpNames.fastify, { framework: 'fastify', guard: 'none' })
  await start(httpNames.fastifyOncekey, { framework: 'fastify', guard: 'oncekey' })
  await start(httpNames.fastifyCached, { framework: 'fastify', guard: 'oncekey with a cache' })
  await start(httpNames.express, { framework: 'express', guard: 'none' })
  await start(httpNames.expressOncekey, { framework: 'express', guard: 'oncekey' })
  if (redis) {
    await startPeer(httpNames.fastifyNodeIdempotency, { framework: 'fastify', guard: 'node-idempotency' }, redis.inMemory)
    await startPeer(httpNames.fastifyNodeIdempotencyAlways, { framework: 'fastify', guard: 'node-idempotency' }, redis.always)
    await startPeer(httpNames.expressIdempotency, { framework: 'express', guard: 'express-idempotency' }, redis.inMemory)
  }
  await warmUp(load, services.values(), seconds)

  const groups: Group[] = []
  for (const mode of Object.keys(httpModes) as HttpMode[]) {
    for (const framework of ['Fastify', 'Express'] as const) {
      for (const outstanding of [64, 256]) {
        await server.reset()
        const contenders = [...services]
          .filter(([name]) => name.startsWith(framework) && (mode === 'replay' || name !== httpNames.fastifyCached))
          .map(([name, service]) => contender(name, service, mode))
        groups.push(
          await interleave({
            ...{ title: httpTitle(framework, mode, outstanding), outstanding, rounds, seconds, contenders },
            // What is replayed must stay there.
            ...(mode === 'replay' ? {} : { prepare: server.reset }),
          }),
        )
      }
    }
  }
  for (const service of services.values()) await service.stop()
  return groups

  function contender(name: string, service: Service, mode: HttpMode): Contender {
    const cpu = cpus.get(name) ?? unknownCpu
    const hot = crypto.randomUUID()
    return { name, run: (turn) => load(service, turn, { mode, prefix: mode === 'replay' ? hot : crypto.randomUUID() }, cpu) }
  }
}
