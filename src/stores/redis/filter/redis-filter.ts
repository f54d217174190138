import { type Clock, systemClock } from '../../../core/clock.js'
import { type Duration, durationMs } from '../../../core/duration.js'
import { OncekeyError } from '../../../core/errors.js'
import { checkKeyRef, type KeyRef, keyId } from '../../../core/key.js'
import { type EncryptionKey, keyRing } from '../../../core/key-ring.js'
import type { Lease } from '../../../core/record.js'
import type { KeyClaim, KeyFinish, StepStore, Store, Verdict, WriteResult } from '../../../core/store.js'
import type { RedisConnection } from '../connections/connection.js'
import { checkPrefix } from '../redis-store.js'
import { Breaker } from './breaker.js'
import { DatabaseClock } from './database-clock.js'
import { type Entry, packEntry, unpackEntry } from './entry.js'

export interface RedisFilterOptions {
  /**
   * Keys for HMAC-SHA-256, 32 random bytes each, the same in all processes: the first signs, all verify. Anyone who has one and can write
   * to Redis can forge answers. Removing one only invalidates its entries.
   */
  secrets: readonly EncryptionKey[]
  /** Prefix of its entries. Services that share a Redis need different ones. Default `oncekey-filter:`. */
  prefix?: string
  /**
   * How long a request waits for Redis before it asks the database. Too low: a busy Redis is useless. Too high: a hanging Redis delays
   * five requests by this much, then is skipped for a second. Default 10 ms.
   */
  timeout?: Duration
  /**
   * How long an answer stays in Redis, at most its retention. Too low: late retries ask the database once more. Too high: memory, and a key
   * deleted manually is replayed for that long. Default 1 h.
   */
  keepFor?: Duration
  /** Larger answers stay in the database. Too low: they are always read there. Too high: load on Redis and the network. Default 64 KiB. */
  maxAnswerBytes?: number
  /** Called for each request. Errors it throws are ignored. Default: none. */
  onEvent?: (event: FilterEvent) => unknown
  /** For tests. */
  clock?: Clock
}

/**
 * `served`: answered without the database. `passed-on`: the database was asked. `unanswered`: it was, because Redis was too slow or is
 * skipped. `refused`: it was, because the entry was damaged, forged or another key's.
 */
export interface FilterEvent extends KeyRef {
  readonly type: 'served' | 'passed-on' | 'unanswered' | 'refused'
}

/** The most keys remembered as in progress in this process. Other answers reach Redis with their first replay. */
const maxHeld = 10_000

type Known = Extract<Verdict, { kind: 'replay' | 'in-progress' }>

/**
 * Redis in front of a durable store. It answers for finished keys and keys in progress, so that retries need no database; only the store
 * lets work run. A Redis that is slow, empty, stale, down or forged costs time, never a second run or a wrong answer.
 */
export function redisFilter<Tx, S extends Store<Tx>>(store: S & Store<Tx>, redis: RedisConnection, options: RedisFilterOptions): S {
  const { prefix = 'oncekey-filter:', timeout = '10ms', keepFor = '1h', maxAnswerBytes = 65_536, clock = systemClock } = options
  checkStore(store)
  checkPrefix(prefix)
  checkSize(maxAnswerBytes)
  const ring = keyRing({ keys: options.secrets }, { option: 'secrets', each: 'secret', does: 'signs' })
  const keepForMs = durationMs(keepFor, 'keepFor')
  const breaker = new Breaker(clock, durationMs(timeout, 'timeout'))
  const database = new DatabaseClock(clock)
  const held = new Map<string, { readonly ref: KeyRef; readonly fingerprint: Uint8Array | null }>()
  /** Tokens of failed claims that may hold their key: the start of the lease is unknown. */
  const unsure = new Set<string>()
  let looking = false

  return {
    ...store,

    async keyClaim(claim, limit) {
      const id = keyId(checkKeyRef(claim))
      const known = claim.worker ? undefined : await find(id, claim)
      if (known) return known
      const asked = database.earliest()
      const verdict = await store.keyClaim(claim, limit).catch((error: unknown) => {
        unsure.add(claim.owner)
        dropOldest(unsure)
        throw error
      })
      lookAtClock(claim.tenant, id)
      if (verdict.kind === 'execute') hold(claim, verdict.lease, asked)
      if (verdict.kind === 'replay') keepReplay(claim, id, verdict, asked)
      return verdict
    },

    async keyEnqueue(claim, limit) {
      return (await find(keyId(checkKeyRef(claim)), claim)) ?? store.keyEnqueue(claim, limit)
    },

    async keyWithdraw(claim, limit) {
      const result = await store.keyWithdraw(claim, limit)
      if (result === 'done') await forget(keyId(checkKeyRef(claim)))
      return result
    },

    async keyPeek(claim, limit) {
      return (await find(keyId(checkKeyRef(claim)), claim)) ?? store.keyPeek(claim, limit)
    },

    async keyFinish(finish, limit) {
      const known = letGo(finish.lease)
      const asked = database.earliest()
      const result = await store.keyFinish(finish, limit)
      if (result === 'done') await tellFinished(finish, known, asked)
      return result
    },
    keyRelease: (release, limit) => ended(release.lease, () => store.keyRelease(release, limit)),
    keyPark: (park, limit) => ended(park.lease, () => store.keyPark(park, limit)),

    ...(store.steps ? { steps: filteredSteps(store.steps) } : {}),
  } satisfies Partial<Store<Tx>> as S

  /** What Redis knows of the key, if it is authentic, still in force and for this same request. */
  async function find(id: string, claim: KeyClaim): Promise<Known | undefined> {
    const verdict = database.latest() === undefined ? 'passed-on' : await ask(id, claim)
    const served = typeof verdict === 'object'
    tell(claim, served ? 'served' : verdict)
    if (served && database.isStale) lookAtClock(claim.tenant, id)
    return served ? verdict : undefined
  }

  async function ask(id: string, claim: KeyClaim): Promise<Known | Exclude<FilterEvent['type'], 'served'>> {
    const reply = await breaker.ask(() => redis.send(nameOf(id), ['GET', nameOf(id)]))
    if (!reply) return 'unanswered'
    if (reply.answer === null) return 'passed-on'
    const entry = reply.answer instanceof Uint8Array ? unpackEntry(ring, claim, reply.answer) : undefined
    if (!entry) return 'refused'
    const latest = database.latest()
    if (latest === undefined || entry.until <= latest || !isSameRequest(claim, entry)) return 'passed-on'
    const leftMs = entry.until - latest
    if (entry.kind === 'finished') {
      const { state, answer, incarnation } = entry
      return { kind: 'replay', state, answer, incarnation, expiresInMs: leftMs }
    }
    // Its own acknowledgement was lost: the store recognises it.
    return entry.owner === claim.owner ? 'passed-on' : { kind: 'in-progress', retryAfterMs: leftMs }
  }

  /** `asked`: a lower bound of the database time at the claim, so the lease ends after `asked + leaseMs`. */
  function hold(claim: KeyClaim, lease: Lease, asked: number | undefined): void {
    const fingerprint = claim.fingerprint?.bytes ?? null
    held.set(leaseName(lease), { ref: checkKeyRef(claim), fingerprint })
    dropOldest(held)
    if (asked === undefined || unsure.delete(claim.owner)) return
    const { incarnation, owner } = lease
    // Never over an answer: this may be late.
    void put(claim, lease.id, { kind: 'held', incarnation, owner, fingerprint, until: asked + claim.leaseMs }, ['NX'])
  }

  function keepReplay(claim: KeyClaim, id: string, replay: Extract<Verdict, { kind: 'replay' }>, asked: number | undefined): void {
    if (asked === undefined || replay.answer.body.length > maxAnswerBytes) return
    const { state, answer, incarnation, expiresInMs } = replay
    const fingerprint = claim.fingerprint?.bytes ?? null
    const until = asked + Math.min(expiresInMs, keepForMs)
    void put(claim, id, { kind: 'finished', state, answer, incarnation, fingerprint, until })
  }

  /** Awaited, so that the client finds its answer here when it retries. */
  function tellFinished(finish: KeyFinish, known: ReturnType<typeof letGo>, asked: number | undefined): Promise<unknown> {
    const { lease, state, answer, retention } = finish
    if (!known || asked === undefined || answer.body.length > maxAnswerBytes) return forget(lease.id)
    // The creation time is unknown here, but the retention floor is guaranteed.
    const keptMs = retention.from === 'completion' ? retention.ms : retention.floorMs
    const until = asked + Math.min(keptMs, keepForMs)
    const { ref, fingerprint } = known
    return put(ref, lease.id, { kind: 'finished', state, answer, incarnation: lease.incarnation, fingerprint, until })
  }

  async function ended(lease: Lease, end: () => Promise<WriteResult>): Promise<WriteResult> {
    letGo(lease)
    const result = await end()
    if (result === 'done') await forget(lease.id)
    return result
  }

  /** A repeated finish may carry another answer than the stored one: only the first is cached. */
  function letGo(lease: Lease) {
    const name = leaseName(lease)
    const known = held.get(name)
    held.delete(name)
    return known
  }

  async function put(ref: KeyRef, id: string, entry: Entry, conditions: readonly string[] = []): Promise<unknown> {
    const latest = database.latest()
    const leftMs = latest === undefined ? 0 : Math.floor(entry.until - latest)
    if (leftMs < 1) return
    return breaker.ask(async () => {
      const bytes = packEntry(ring, ref, entry)
      return redis.send(nameOf(id), ['SET', nameOf(id), bytes, 'PX', String(leftMs), ...conditions])
    })
  }

  function forget(id: string): Promise<unknown> {
    return breaker.ask(() => redis.send(nameOf(id), ['DEL', nameOf(id)]))
  }

  /** Any existing key will do; not awaited. */
  function lookAtClock(tenant: string, id: string): void {
    if (looking || !database.isStale) return
    looking = true
    const asked = database.moment()
    store.keyReadById({ tenant, id }, undefined, { request: false }).then(
      (seen) => {
        looking = false
        if (seen) database.saw(seen.now, asked)
      },
      () => {
        looking = false
      },
    )
  }

  function filteredSteps(steps: StepStore<Tx>): StepStore<Tx> {
    return {
      ...steps,
      async keyFinishWithin(finish, tx, limit) {
        letGo(finish.lease)
        const result = await steps.keyFinishWithin(finish, tx, limit)
        // Before the commit, whether or not it comes: meanwhile requests go to the database.
        void forget(finish.lease.id)
        return result
      },
    }
  }

  function tell({ tenant, scope, key }: KeyRef, type: FilterEvent['type']): void {
    try {
      options.onEvent?.({ type, tenant, scope, key })
    } catch {}
  }

  function nameOf(id: string): string {
    return `${prefix}${id}`
  }
}

/** If in doubt or different, the database decides. */
function isSameRequest({ fingerprint }: KeyClaim, entry: Entry): boolean {
  if (fingerprint === null) return true
  if (entry.fingerprint === null) return false
  try {
    return fingerprint.differenceFrom(entry.fingerprint) === null
  } catch {
    return false
  }
}

function dropOldest(names: Map<string, unknown> | Set<string>): void {
  if (names.size > maxHeld) names.delete(names.keys().next().value as string)
}

const leaseName = ({ id, incarnation, fence }: Lease) => `${id}:${incarnation}:${fence}`

function checkSize(maxAnswerBytes: unknown): void {
  if (Number.isInteger(maxAnswerBytes) && (maxAnswerBytes as number) >= 0) return
  throw new OncekeyError('option_invalid', `maxAnswerBytes is ${String(maxAnswerBytes)}: it must be an integer of at least 0.`)
}

function checkStore(store: Pick<Store, 'durability'>): void {
  if (store?.durability === 'durable') return
  throw new OncekeyError('option_invalid', 'redisFilter needs a durable store: postgresStore(…) of oncekey/postgres.')
}
