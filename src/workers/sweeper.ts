import { type Duration, durationMs } from '../core/duration.js'
import type { OncekeyError } from '../core/errors.js'
import type { Once } from '../create-once.js'
import { checkCount, upkeepOf, workerParts } from './parts.js'
import { createService, type Service } from './service.js'

export interface SweeperOptions {
  /**
   * How often it looks. A key whose holder died is stuck for its lease and this long, unless its client comes back first. Too low:
   * statements for nothing. Too high: such keys wait longer. Default 5 s.
   */
  every?: Duration
  /** How many keys it looks at in one statement. Too low: more statements. Too high: longer ones. Default 5,000. */
  batch?: number
}

/**
 * Takes keys back whose holder is gone: to pending, where a retry or the completer takes them up, or to what their `afterFailure` says.
 * Of all processes, one at a time does it.
 */
export function sweeper<Tx>(once: Once<Tx>, { every = '5s', batch = 5_000 }: SweeperOptions = {}): Service {
  const parts = workerParts(once, 'sweeper')
  const upkeep = upkeepOf(once, 'sweeper')
  checkCount('batch', batch)
  const intervalMs = durationMs(every, 'every')
  const { report } = once.internals.parts
  const holder = parts.random.uuid()
  // Over before the others look again, should this process die. Two that sweep at once do no harm: it is work for nothing.
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
