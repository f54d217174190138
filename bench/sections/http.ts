import type { Contender, Group } from '../harness/contender.js'
import type { CpuMeter } from '../harness/cpu.js'
import type { Redis } from '../harness/redis.js'
import { interleave, type Rounds } from '../harness/rounds.js'
import type { BenchServer } from '../harness/server.js'
import { type Service, startService } from '../http/start-service.js'
import { warmUp } from '../http/warm-up.js'
import { findWrk, type Load, noWrk } from '../http/wrk.js'
import { adapterWays, type Framework, type HttpMode, httpTitle, serviceName, type Way } from './titles.js'

export interface HttpOptions extends Rounds {
  readonly adapters: readonly Framework[]
  readonly modes: readonly HttpMode[]
  readonly connections: readonly number[]
  /** Numbers that mean nothing: the services are not warmed up. */
  readonly quick: boolean
  /** Also what is guarded with it. */
  readonly redis: { readonly inMemory: Redis; readonly always: Redis } | undefined
  readonly notes: string[]
}

/** A service, and the server behind it. */
interface Guarded {
  readonly name: string
  readonly way: Way
  readonly service: Service
  readonly cpu: CpuMeter
}

export async function measureHttp(server: BenchServer, options: HttpOptions): Promise<Group[]> {
  const load = await findWrk()
  if (!load) {
    options.notes.push(noWrk('the HTTP section'))
    return []
  }
  const groups: Group[] = []
  for (const framework of options.adapters) groups.push(...(await measureFramework(framework, server, load, options)))
  return groups
}

/** All ways to serve one framework, beside each other: other frameworks have their turn before and after, so that few processes are alive. */
async function measureFramework(framework: Framework, server: BenchServer, load: Load, options: HttpOptions): Promise<Group[]> {
  const { rounds, seconds, modes, connections, quick } = options
  const guarded = await startAll(framework, server, options)
  const services = guarded.map(({ service }) => service)
  if (!quick) await warmUp(load, services, seconds)
  const groups: Group[] = []
  for (const mode of modes) {
    for (const outstanding of connections) {
      await server.reset()
      const contenders = guarded
        .filter(({ way }) => mode === 'replay' || way !== 'oncekey with an answer cache')
        .map((one) => contender(one, mode, load))
      groups.push(
        await interleave({
          ...{ title: httpTitle(framework, mode, outstanding), outstanding, rounds, seconds, contenders, warm: quick },
          // What is replayed must stay there.
          ...(mode === 'replay' ? {} : { prepare: server.reset }),
        }),
      )
    }
  }
  await Promise.all(services.map((service) => service.stop()))
  return groups
}

async function startAll(framework: Framework, server: BenchServer, { quick, redis, notes }: HttpOptions): Promise<Guarded[]> {
  const start = async (way: Way, behind?: Redis, name = serviceName(framework, way)): Promise<Guarded> => {
    const service = await startService({ framework, way, databaseUrl: server.url, redisUrl: behind?.url })
    return { name, way, service, cpu: behind?.cpu ?? server.cpu }
  }
  const guarded = await Promise.all(adapterWays.filter((way) => !quick || way !== 'bare').map((way) => start(way)))
  if (framework === 'fastify' && !quick) guarded.push(await start('oncekey with an answer cache'))
  for (const [way, behind, kept] of redis ? peersOf(framework, redis) : []) {
    await start(way, behind, peerName(framework, way, kept)).then(
      (peer) => guarded.push(peer),
      (error: Error) => notes.push(`${way} does not run here: ${error.message}`),
    )
  }
  return guarded
}

type Kept = 'in memory' | 'AOF always'

export const peerName = (framework: Framework, way: Way, kept: Kept) => `${serviceName(framework, way)}, Redis ${kept}`

function peersOf(framework: Framework, { inMemory, always }: NonNullable<HttpOptions['redis']>): [Way, Redis, Kept][] {
  if (framework === 'express') return [['express-idempotency', inMemory, 'in memory']]
  if (framework !== 'fastify') return []
  return [
    ['@node-idempotency/core', inMemory, 'in memory'],
    ['@node-idempotency/core', always, 'AOF always'],
  ]
}

function contender({ name, service, cpu }: Guarded, mode: HttpMode, load: Load): Contender {
  const hot = crypto.randomUUID()
  return { name, run: (turn) => load(service, turn, { mode, prefix: mode === 'replay' ? hot : crypto.randomUUID() }, cpu) }
}
