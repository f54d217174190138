import { type Duration, durationMs } from '../core/duration.js'
import { type KeyRef, keyId } from '../core/key.js'
import type { WaitingKey } from '../core/store.js'
import type { Once } from '../create-once.js'
import { checkCount, upkeepOf, workerParts } from './parts.js'
import { RestingKeys } from './resting-keys.js'
import { createService, type Service } from './service.js'

export interface CompleterOptions {
  /** How often it polls for waiting keys. Too low: needless statements. Too high: keys wait longer. Default 1 s. */
  every?: Duration
  /** Operations that this process runs at the same time. Too high: requests slow down. Default 10. */
  slots?: number
  /**
   * Attempts by workers, over all processes, before the key is parked. Too low: a provider outage of an hour parks everything. Too high:
   * work that cannot succeed is retried for days. Default 12: about four hours.
   */
  maxAttempts?: number
}

/** After this many attempts, a key whose last holder vanished runs only while no other such key does: it may crash the process. */
const suspectAfter = 2

/** The most rows of one poll, however many of them rest or wait for the suspects' slot. */
const mostLookedAt = 2_000

/**
 * Completes operations whose clients did not come back, from the request stored with the key, and those that were enqueued for workers.
 * It handles only operations defined on `once`.
 */
export function completer<Tx>(once: Once<Tx>, { every = '1s', slots = 10, maxAttempts = 12 }: CompleterOptions = {}): Service {
  const parts = workerParts(once, 'completer')
  const upkeep = upkeepOf(once, 'completer')
  checkCount('slots', slots)
  checkCount('maxAttempts', maxAttempts)
  const { operations, onEnqueued } = once.internals
  const { running, storeTimeoutMs } = once.internals.parts
  const { clock } = parts
  const underWay = new Map<string, Promise<void>>()
  const resting = new RestingKeys(() => clock.monotonic())
  /** The running key that may crash the process. */
  let suspect: string | undefined
  let counts = noCounts()
  let isStarted = false
  /** The last poll found more keys than slots. */
  let isCrowded = false

  const service = createService({
    ...parts,
    intervalMs: durationMs(every, 'every'),
    async run(stopping) {
      await fillSlots(() => !stopping.aborted)
      return takeCounts()
    },
  })

  return {
    name: service.name,
    start() {
      isStarted = true
      onEnqueued.add(beginNew)
      service.start()
    },
    async stop() {
      isStarted = false
      onEnqueued.delete(beginNew)
      await service.stop()
      // Work whose key was released at shutdown may run on: do not wait for it.
      await Promise.race([Promise.all(underWay.values()), running.stopped])
    },
    async runOnce() {
      const startedAt = parts.clock.monotonic()
      // Each key once: a key whose claim failed is still in the result.
      const tried = new Set<string>()
      const fill = () => fillSlots(() => true, tried)
      for (await fill(); underWay.size > 0; await fill()) await Promise.race(underWay.values())
      const taken = takeCounts()
      parts.onRun(taken, parts.clock.monotonic() - startedAt)
      return taken
    },
  }

  async function fillSlots(goesOn: () => boolean, tried = new Set<string>()): Promise<void> {
    const scopes = [...operations.keys()]
    // More than fit, in random order: other processes poll at the same time and should not try the same keys.
    let limit = 2 * slots + resting.count
    for (let more = true; more && underWay.size < slots && running.isOpen; ) {
      const waiting = await upkeep.keysWaiting({ scopes, limit })
      if (!goesOn()) return
      const shuffled = waiting.map((key) => ({ key, order: parts.random.fraction() })).sort((one, other) => one.order - other.order)
      const free = shuffled.filter(({ key }) => isFree(key, tried))
      for (const { key } of free) if (beginIfFree(key)) tried.add(keyId(key))
      isCrowded = free.some(({ key }) => !underWay.has(keyId(key)))
      // The page holds only keys that cannot start now: read past them.
      const next = Math.min(mostLookedAt, limit + waiting.length)
      more = waiting.length === limit && next > limit
      limit = next
    }
  }

  function isFree(key: WaitingKey, tried: ReadonlySet<string>): boolean {
    const id = keyId(key)
    return !tried.has(id) && !underWay.has(id) && !resting.isResting(id, key)
  }

  function beginNew(ref: KeyRef): void {
    beginIfFree({ ...ref, attempts: 0, holderGone: false })
  }

  function beginIfFree(key: WaitingKey): boolean {
    const id = keyId(key)
    if (underWay.size >= slots || underWay.has(id)) return false
    if (isSuspect(key)) {
      if (suspect !== undefined) return false
      suspect = id
    }
    underWay.set(
      id,
      endOf(key).then((end) => ended(key, end)),
    )
    return true
  }

  function ended(key: WaitingKey, end: End): void {
    const id = keyId(key)
    counts[end] += 1
    underWay.delete(id)
    if (suspect === id) suspect = undefined
    if (end === 'completed' || end === 'parked') resting.forget(id)
    else resting.rest(id, key)
    if (end === 'completed' && isCrowded && isStarted) lookAgain()
  }

  /** Fills freed slots without waiting for the next run, which reports any error. */
  function lookAgain(): void {
    isCrowded = false
    fillSlots(() => isStarted).catch(() => {})
  }

  /** Work that never returns loses its key after `maxRun`, and its slot soon after. */
  function endOf(key: WaitingKey): Promise<End> {
    const longestMs = (operations.get(key.scope)?.maxRunMs ?? 0) + 2 * storeTimeoutMs
    return new Promise((resolve) => {
      const cancel = clock.schedule(() => resolve('failed'), longestMs, { background: true })
      void carryOn(key).then((end) => {
        cancel()
        resolve(end)
      })
    })
  }

  /** Errors of the operation are reported by its events; the key is due again later. */
  async function carryOn({ tenant, scope, key }: WaitingKey): Promise<End> {
    try {
      const outcome = await operations.get(scope)?.resume({ tenant, key }, { maxAttempts })
      // Not stored: the next attempt has to do it.
      if (outcome?.kind === 'executed') return outcome.stored ? 'completed' : 'failed'
      return outcome?.kind === 'parked' ? 'parked' : 'elsewhere'
    } catch {
      return 'failed'
    }
  }

  function takeCounts() {
    const taken = counts
    counts = noCounts()
    return taken
  }
}

const isSuspect = ({ attempts, holderGone }: WaitingKey) => holderGone && attempts >= suspectAfter

type End = keyof ReturnType<typeof noCounts>

/** `failed`: attempts that failed and will be retried. `elsewhere`: another process was faster. */
const noCounts = () => ({ completed: 0, failed: 0, parked: 0, elsewhere: 0 })
