import { type Duration, durationMs } from '../core/duration.js'
import { type KeyRef, keyId } from '../core/key.js'
import type { Once } from '../create-once.js'
import { checkCount, upkeepOf, workerParts } from './parts.js'
import { createService, type Service } from './service.js'

export interface CompleterOptions {
  /** How often it looks for keys that wait. Too low: statements for nothing. Too high: they wait longer. Default 1 s. */
  every?: Duration
  /** How many operations it carries out at the same time, in this process. Too high: requests feel it. Default 10. */
  slots?: number
  /**
   * How often workers try a key, in all processes together; then it is parked for a person. Too low: a provider that is down for an hour
   * parks everything. Too high: what cannot work is tried for days. Default 12, which takes about five hours.
   */
  maxAttempts?: number
}

/**
 * Carries operations to their end whose clients did not come back, from the request that was stored with the key, and those that were
 * left to workers from the start. It knows the operations that are defined on `once`.
 */
export function completer<Tx>(once: Once<Tx>, { every = '1s', slots = 10, maxAttempts = 12 }: CompleterOptions = {}): Service {
  const parts = workerParts(once, 'completer')
  const upkeep = upkeepOf(once, 'completer')
  checkCount('slots', slots)
  checkCount('maxAttempts', maxAttempts)
  const { operations, onEnqueued } = once.internals
  const { running } = once.internals.parts
  const underWay = new Map<string, Promise<void>>()
  let counts = noCounts()

  const service = createService({
    ...parts,
    intervalMs: durationMs(every, 'every'),
    async run() {
      await fillSlots()
      return takeCounts()
    },
  })

  return {
    name: service.name,
    start() {
      onEnqueued.add(beginIfFree)
      service.start()
    },
    async stop() {
      onEnqueued.delete(beginIfFree)
      await service.stop()
      await Promise.all(underWay.values())
    },
    async runOnce() {
      for (await fillSlots(); underWay.size > 0; await fillSlots()) await Promise.race(underWay.values())
      return takeCounts()
    },
  }

  async function fillSlots(): Promise<void> {
    const free = slots - underWay.size
    if (free <= 0 || !running.isOpen) return
    // More than fit, in any order: other processes look at the same moment, and should not all try the same ones.
    const waiting = await upkeep.keysWaiting({ scopes: [...operations.keys()], limit: 2 * slots })
    const shuffled = waiting.map((ref) => ({ ref, order: parts.random.fraction() })).sort((one, other) => one.order - other.order)
    for (const { ref } of shuffled) beginIfFree(ref)
  }

  function beginIfFree(ref: KeyRef): void {
    const id = keyId(ref)
    if (underWay.size >= slots || underWay.has(id)) return
    const work = carryOn(ref).finally(() => underWay.delete(id))
    underWay.set(id, work)
  }

  /** What an operation throws is told by its events, and it is due again later. */
  async function carryOn({ tenant, scope, key }: KeyRef): Promise<void> {
    try {
      const outcome = await operations.get(scope)?.resume({ tenant, key }, { maxAttempts })
      counts[outcome?.kind === 'executed' ? 'completed' : outcome?.kind === 'parked' ? 'parked' : 'elsewhere'] += 1
    } catch {
      counts.failed += 1
    }
  }

  function takeCounts() {
    const taken = counts
    counts = noCounts()
    return taken
  }
}

/** `failed`: attempts that failed, and are made again later. `elsewhere`: somebody else was faster. */
const noCounts = () => ({ completed: 0, failed: 0, parked: 0, elsewhere: 0 })
