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
   * parks everything. Too high: what cannot work is tried for days. Default 12, which takes about four hours.
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
  let isStarted = false
  /** At the last look more were waiting than had room. */
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
      onEnqueued.add(beginIfFree)
      service.start()
    },
    async stop() {
      isStarted = false
      onEnqueued.delete(beginIfFree)
      await service.stop()
      // Work whose key was given back may go on for ever.
      await Promise.race([Promise.all(underWay.values()), running.stopped])
    },
    async runOnce() {
      const startedAt = parts.clock.monotonic()
      // Each key once: one that cannot even be claimed is as it was before.
      const tried = new Set<string>()
      const fill = () => fillSlots(() => true, tried)
      for (await fill(); underWay.size > 0; await fill()) await Promise.race(underWay.values())
      const taken = takeCounts()
      parts.onRun(taken, parts.clock.monotonic() - startedAt)
      return taken
    },
  }

  async function fillSlots(goesOn: () => boolean, tried = new Set<string>()): Promise<void> {
    if (underWay.size >= slots || !running.isOpen) return
    // More than fit, in any order: other processes look at the same moment, and should not all try the same ones.
    const waiting = await upkeep.keysWaiting({ scopes: [...operations.keys()], limit: 2 * slots })
    if (!goesOn()) return
    const shuffled = waiting.map((ref) => ({ ref, order: parts.random.fraction() })).sort((one, other) => one.order - other.order)
    for (const { ref } of shuffled) if (!tried.has(keyId(ref)) && beginIfFree(ref)) tried.add(keyId(ref))
    isCrowded = waiting.some((ref) => !underWay.has(keyId(ref)))
  }

  function beginIfFree(ref: KeyRef): boolean {
    const id = keyId(ref)
    if (underWay.size >= slots || underWay.has(id)) return false
    const work = carryOn(ref).then((isDone) => {
      underWay.delete(id)
      if (isDone && isCrowded && isStarted) lookAgain()
    })
    underWay.set(id, work)
    return true
  }

  /** What waits behind those that had room need not wait for the next turn. What goes wrong is told by that one. */
  function lookAgain(): void {
    isCrowded = false
    fillSlots(() => isStarted).catch(() => {})
  }

  /** What an operation throws is told by its events, and it is due again later. True if the key is done with. */
  async function carryOn({ tenant, scope, key }: KeyRef): Promise<boolean> {
    try {
      const outcome = await operations.get(scope)?.resume({ tenant, key }, { maxAttempts })
      // Not stored: the next attempt has to do it.
      const isDone = outcome?.kind === 'executed' && outcome.stored
      counts[isDone ? 'completed' : outcome?.kind === 'executed' ? 'failed' : outcome?.kind === 'parked' ? 'parked' : 'elsewhere'] += 1
      return isDone
    } catch {
      counts.failed += 1
      return false
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
