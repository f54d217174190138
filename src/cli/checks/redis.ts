import { thrownText } from '../../core/thrown-text.js'
import { CommandError } from '../exit-codes.js'
import type { World } from '../world.js'
import { type Check, ok, warn } from './check.js'

/** How well a Redis keeps keys of `redisStore()`. INFO alone: managed servers refuse CONFIG. */
export async function redisChecks(world: Pick<World, 'connectRedis'>, url: string): Promise<Check[]> {
  try {
    const { info, close } = await world.connectRedis(url)
    try {
      return checksOf(factsOf(await info()))
    } finally {
      close()
    }
  } catch (error) {
    if (error instanceof CommandError) throw error
    const says = `it cannot be reached: ${thrownText(error)}`
    return [warn('redis', says, 'check the address, the password and the server')]
  }
}

function checksOf(facts: ReadonlyMap<string, string>): Check[] {
  const where = `Redis ${facts.get('redis_version') ?? 'of an unknown release'}`
  const policy = facts.get('maxmemory_policy') ?? 'unknown'
  return [
    facts.get('role') === 'slave'
      ? warn('redis', `${where} is a replica: it takes no writes`, 'connect to the primary')
      : ok('redis', `${where} takes writes`),
    policy === 'noeviction'
      ? ok('redis eviction', 'no key is evicted')
      : warn(
          'redis eviction',
          `maxmemory-policy is ${policy}: when memory is short keys are evicted, and their work runs again`,
          'set maxmemory-policy noeviction',
        ),
    facts.get('aof_enabled') === '1'
      ? ok('redis log', 'writes are logged to disk')
      : warn('redis log', 'there is no append-only file: a crash loses keys, and their work runs again', 'set appendonly yes'),
    replicasCheck(facts),
  ]
}

function replicasCheck(facts: ReadonlyMap<string, string>): Check {
  const name = 'redis replicas'
  const replicas = Number(facts.get('connected_slaves') ?? 0)
  if (replicas === 0) return ok(name, 'there are none')
  // Present only if writes require replicas.
  if (facts.has('min_slaves_good_slaves')) return ok(name, `${replicas}, and writes are refused when too few of them keep up`)
  return warn(
    name,
    `${replicas}, and none has to keep up (min-replicas-to-write is 0): a failover loses unreplicated keys, and their work runs again`,
    'set min-replicas-to-write 1 and min-replicas-max-lag 10: this narrows the gap, and does not close it',
  )
}

function factsOf(info: string): Map<string, string> {
  return new Map([...info.matchAll(/^([a-z0-9_]+):(.*?)\r?$/gm)].map(([, name, value]) => [name as string, value as string]))
}
