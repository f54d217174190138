import { type Duration, durationMs } from '../core/duration.js'
import type { OncekeyError } from '../core/errors.js'
import type { Once } from '../create-once.js'
import { checkCount, upkeepOf, workerParts } from './parts.js'
import { createService, rest, type Service } from './service.js'

export interface ReaperOptions {
  /** How often it runs. Too low: needless statements. Too high: a larger table. Default 30 s. */
  every?: Duration
  /** Keys deleted per statement. Too low: more statements. Too high: claims wait behind a long one. Default 500. */
  batch?: number
  /**
   * The most keys deleted per second. Too low: the table grows faster than it is reaped. Too high: claims slow down
   * (numbers: docs/decisions/0008). `false`: no limit. Default 10,000.
   */
  perSecond?: number | false
}

/**
 * Deletes complete and failed keys past their retention, with their results. Ends unfinished keys past their retention: those never claimed
 * fail with 408; all others are parked, because they may have taken effect.
 */
export function reaper<Tx>(once: Once<Tx>, { every = '30s', batch = 500, perSecond = 10_000 }: ReaperOptions = {}): Service {
  const parts = workerParts(once, 'reaper')
  const upkeep = upkeepOf(once, 'reaper')
  checkCount('batch', batch)
  if (perSecond !== false) checkCount('perSecond', perSecond)
  const { store, report } = once.internals.parts
  const { clock } = parts

  return createService({
    ...parts,
    intervalMs: durationMs(every, 'every'),
    async run(stopping) {
      // A failure of one does not stop the other.
      const [reaping] = await Promise.allSettled([reap(stopping)])
      const ended = await timeOut(stopping)
      if (reaping.status === 'rejected') throw reaping.reason
      return { reaped: reaping.value, ...ended }
    },
  })

  /** Until a batch is empty: a short batch may mean that other reapers have locked the rest. */
  async function reap(stopping: AbortSignal): Promise<number> {
    let refused: OncekeyError | undefined
    const onRefused = (error: OncekeyError) => {
      refused ??= error
    }
    let total = 0
    try {
      for (let more = true; more && !stopping.aborted; ) {
        const startedAt = clock.monotonic()
        const count = await store.keyReap({ limit: batch, onRefused })
        total += count
        more = count > 0
        const shareMs = perSecond === false ? 0 : (count / perSecond) * 1_000
        if (more) await rest(clock, Math.max(0, shareMs - (clock.monotonic() - startedAt)), stopping)
      }
    } finally {
      if (refused) parts.onError(refused)
    }
    return total
  }

  async function timeOut(stopping: AbortSignal): Promise<{ readonly timedOut: number; readonly parked: number }> {
    const counts = { timedOut: 0, parked: 0 }
    const refused: OncekeyError[] = []
    for (let more = true; more && !stopping.aborted; ) {
      const ended = await upkeep.keysTimeOut({ limit: batch, onRefused: (error) => refused.length === 0 && refused.push(error) })
      for (const { to, fence, reason, ...ref } of ended) {
        counts[to === 'failed' ? 'timedOut' : 'parked'] += 1
        report(ref, to === 'failed' ? { type: 'timed-out' } : { type: 'parked', error: new Error(reason) })
      }
      more = ended.length > 0
    }
    for (const error of refused) parts.onError(error)
    return counts
  }
}
