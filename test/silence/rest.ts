import { waitUntil } from '../support/wait-until.js'
import { allEnded, idlePool } from './invariants.js'
import { long, recoveryMs } from './limits.js'
import type { Service } from './service.js'

/** What a service holds at rest. */
export interface AtRest {
  readonly heapBytes: number
}

/** On a machine that does much else, too. */
const warmUpMs = 120_000

/** Serves until all code has been compiled and all connections were used, and returns what the service holds then. */
export async function warmedUp(service: Service, requests = 200): Promise<AtRest> {
  await service.load(`warm-${crypto.randomUUID()}`, 8)
  let count = 0
  await waitUntil(
    'it is warm',
    async () => {
      count += (await service.ended()).length
      return count >= requests
    },
    warmUpMs,
  )
  await service.endLoad()
  await allEnded(service)
  await idlePool(service)
  return { heapBytes: await service.heapBytes() }
}

/** What a service still holds after all its requests have ended, and whether it stops: what is wrong, a line each. */
export async function afterwards(service: Service, before: AtRest): Promise<string[]> {
  const wrong: string[] = []
  const pool = await idlePool(service)
  if (pool !== 'idle') wrong.push(`the pool is not idle: ${pool}`)
  const after = await service.heapBytes()
  const growth = after / before.heapBytes - 1
  if (growth > 0.2) wrong.push(`the heap grew by ${Math.round(growth * 100)} %, to ${Math.round(after / 1e6)} MB`)
  const late = new Promise<undefined>((resolve) => setTimeout(resolve, recoveryMs, undefined))
  if ((await Promise.race([service.stop(), late])) === undefined) wrong.push(`stop() did not end within ${recoveryMs} ms`)
  return wrong
}

/** Carries out so many at the same time, or one by one in a long run: what they measure is not what the others cost. */
export async function inGroups<T>(size: number, all: readonly (() => Promise<T>)[]): Promise<T[]> {
  const step = long ? 1 : size
  const results: T[] = []
  for (let at = 0; at < all.length; at += step) results.push(...(await Promise.all(all.slice(at, at + step).map((work) => work()))))
  return results
}
