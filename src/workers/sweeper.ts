import { type Duration, durationMs } from '../core/duration.js'
import type { OncekeyError } from '../core/errors.js'
import type { Once } from '../create-once.js'
import { checkCount, upkeepOf, workerParts } from './parts.js'
import { createService, type Service } from './service.js'

export interface SweeperOptions {
  /**
   * How often it runs. The key of a dead holder waits for its lease plus this interval, unless its client retries first. Too low: needless
   * statements. Too high: such keys wait longer. Default 5 s.
   */
  every?: Duration
  /** Keys examined per statement. Too low: more statements. Too high: longer ones. Default 5,000. */
  batch?: number
}

/**
 * Resets keys whose holder is gone: to pending, for a retry or the completer, or as their `afterFailure` says. One process at a time
 * does it.
 */
export function sweeper<Tx>(once: Once<Tx>, { every = '5s', batch = 5_000 }: SweeperOptions = {}): Service {
  const parts = workerParts(once, 'sweeper')
  const upkeep = upkeepOf(once, 'sweeper')
  checkCount('batch', batch)
  const intervalMs = durationMs(every, 'every')
  const { report } = once.internals.parts
  const holder = parts.random.uuid()
  // Ends before the others look again, if this process dies. Two sweeps at once are harmless.
  const turnMs = intervalMs / 2

  return createService({
    ...parts,
    intervalMs,
    async run(stopping) {
      const counts = { pending: 0, failed: 0, parked: 0 }
      const refused: OncekeyError[] = []
      const onRefused = (error: OncekeyError) => refused.length === 0 && refused.push(error)
      for (let after: string | undefined; !stopping.aborted; ) {
        const page = await upkeep.keysSweep({ holder, turnMs, limit: batch, after, onRefused })
        if (!page.turn) break
        for (const { to, fence, reason, ...ref } of page.swept) {
          counts[to] += 1
          report(ref, { type: 'swept', fence, to, reason })
        }
        if (page.lookedUpTo === null) break
        after = page.lookedUpTo
      }
      for (const error of refused) parts.onError(error)
      return counts
    },
  })
}
