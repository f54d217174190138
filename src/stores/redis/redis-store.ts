import { type Duration, durationMs } from '../../core/duration.js'
import { OncekeyError } from '../../core/errors.js'
import { checkKeyRef, checkTenant, isKeyId, keyId } from '../../core/key.js'
import type { Lease } from '../../core/record.js'
import type { Store, WriteResult } from '../../core/store.js'
import { holderGone } from '../../core/system-answers.js'
import { claimer } from './claim.js'
import type { RedisConnection } from './connections/connection.js'
import { translated } from './driver-errors.js'
import { answerFields } from './key-hash.js'
import { keyEnd } from './scripts/key-end.js'
import { keyHeartbeat } from './scripts/key-heartbeat.js'
import { keyWithdraw } from './scripts/key-withdraw.js'
import { type RunScript, runScript } from './scripts/script.js'

export interface RedisStoreOptions {
  /** Prefix of its keys in Redis. Services that share a Redis need different ones. Default `oncekey:`. */
  prefix?: string
  /**
   * How long an unfinished key is kept that no client asked for again, counted from its last lease; at least its retention. Too low: a client
   * that returns after a long outage starts anew, without a fingerprint check. Too high: memory for each request that failed and was never
   * retried. `'forever'` is possible. Default 7 days.
   */
  keepUnfinished?: Duration | 'forever'
}

/** A store that may forget: see `redisStore`. */
export interface RedisStore extends Store {
  readonly durability: 'best-effort'
  /** Redis cannot share a transaction with your data. */
  readonly steps?: never
  /** No sweep, no reap: the next claim settles what a crash left, and Redis expires keys. */
  readonly upkeep?: never
}

/**
 * Keys in Redis, for work where a duplicate costs an e-mail, not money. While Redis keeps its data, the full store contract holds. But
 * a failover, an eviction, a flush or a crash between two log writes loses keys, and their work runs again. Work that must not run twice
 * belongs in `postgresStore()`, with `redisFilter()` in front if it must be fast.
 */
export function redisStore(
  connection: RedisConnection,
  { prefix = 'oncekey:', keepUnfinished = '7d' }: RedisStoreOptions = {},
): RedisStore {
  checkPrefix(prefix)
  const keepMs = keepUnfinished === 'forever' ? Number.POSITIVE_INFINITY : durationMs(keepUnfinished, 'keepUnfinished')
  const { claim, enqueue, peek, look } = claimer(run, keepMs)

  return {
    durability: 'best-effort',

    keyClaim: claim,
    keyEnqueue: enqueue,
    keyPeek: peek,

    keyHeartbeat: ({ leases }) =>
      Promise.all(
        leases.map(async (lease) => ((await run(keyHeartbeat, lease.id, [...proof(lease), lease.leaseMs])) === 1 ? 'renewed' : 'lost')),
      ),

    keyFinish({ lease, state, answer, retention, reason }) {
      const { from, ms, floorMs } = retention
      return end(lease, [state, from, ms, floorMs], [...answerFields(answer), ...reasonField(reason)])
    },
    keyRelease: ({ lease, reason }) => end(lease, ['pending', ...notKept], reasonField(reason)),
    keyPark: ({ lease, answer, reason }) => end(lease, ['parked', ...notKept], [...answerFields(answer), ...reasonField(reason)]),

    async keyWithdraw({ owner, ...ref }) {
      return (await run(keyWithdraw, keyId(checkKeyRef(ref)), [owner, holderGone])) === 1 ? 'done' : 'absent'
    },
    async keyRead(ref) {
      const id = keyId(checkKeyRef(ref))
      return (await look(id, ref)).found?.record
    },
    async keyReadById({ tenant, id }) {
      checkTenant(tenant)
      if (!isKeyId(id)) return undefined
      const { found, now } = await look(id)
      return found?.record.tenant === tenant ? { record: found.record, now } : undefined
    },
    // Redis expires keys itself.
    keyReap: async () => 0,
  }

  async function end(lease: Lease, how: readonly (string | number)[], fields: readonly (string | Uint8Array)[]): Promise<WriteResult> {
    return (await run(keyEnd, lease.id, [...proof(lease), ...how, ...fields])) === 1 ? 'done' : 'lost'
  }

  async function run(...[script, id, args]: Parameters<RunScript>): ReturnType<RunScript> {
    try {
      return await runScript(connection, script, `${prefix}${id}`, args)
    } catch (error) {
      throw translated(error)
    }
  }
}

/** A release or a park sets no expiry. */
const notKept = ['', '', ''] as const

const proof = ({ incarnation, fence, owner }: Lease) => [incarnation, String(fence), owner]

const reasonField = (reason: string | undefined) => (reason === undefined ? [] : ['reason', reason])

export function checkPrefix(prefix: unknown): void {
  if (typeof prefix === 'string' && prefix.length > 0 && prefix.length <= 255) return
  throw new OncekeyError('option_invalid', `prefix is ${JSON.stringify(prefix)}: it must be a string of 1 to 255 characters.`)
}
