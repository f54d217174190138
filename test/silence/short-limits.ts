import type { Limit, Store } from '../../src/core/store.js'
import { backgroundCallMs, recoveryMs } from './limits.js'

/**
 * The same store, in which calls of background work end as early as `backgroundCallMs` says, so that a short run need not wait 15 s for each. It only
 * shortens limits with which a worker would be back in time: a call that the engine gives none, or too long a one, is as it was.
 */
export function withShortLimits<Tx>(store: Store<Tx>): Store<Tx> {
  const { upkeep, outbox } = store
  return {
    ...store,
    keyReap: (reap, limit) => store.keyReap(reap, shortened(limit)),
    ...(upkeep && { upkeep: eachShortened(upkeep) }),
    ...(outbox && { outbox: eachShortened(outbox) }),
  }
}

function shortened(limit: Limit | undefined): Limit | undefined {
  if (!limit || limit.timeoutMs > recoveryMs / 2) return limit
  return { timeoutMs: Math.min(limit.timeoutMs, backgroundCallMs) }
}

type Verb = (params: never, limit?: Limit) => Promise<unknown>

function eachShortened<Verbs extends object>(verbs: Verbs): Verbs {
  const entries = Object.entries(verbs as Readonly<Record<string, Verb>>)
  const short = entries.map(([name, verb]): [string, Verb] => [name, (params, limit) => verb(params, shortened(limit))])
  return Object.fromEntries(short) as Verbs
}
