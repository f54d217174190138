import type { Clock } from '../core/clock.js'
import type { TakenJob } from '../core/store.js'
import { deliver } from './deliver.js'
import { type Delivery, type Job, notDelivered, type Sink } from './sink.js'

/** A job that this relay holds. */
export interface HeldJob {
  readonly job: TakenJob
  readonly token: string
  readonly sink: Sink
  /** Until when nobody else can have it, on the process's monotonic clock. */
  readonly certainUntil: number
  readonly takenAt: number
}

/** What became of it here. `released`: it was not tried. */
export type Ended = 'released' | { readonly delivery: Delivery; readonly durationMs: number }

export interface LaneOptions {
  readonly clock: Clock
  /** How many deliveries of one sink may be under way. */
  readonly concurrency: number
  readonly timeoutMs: number
  readonly onEnd: (held: HeldJob, ended: Ended) => void
}

/** Jobs on their way to their sinks, each sink with a queue of its own, so that a slow one does not hold up the others. */
export function lanes({ clock, concurrency, timeoutMs, onEnd }: LaneOptions) {
  const all = new Map<Sink, { readonly waiting: HeldJob[]; active: number }>()

  /** Starts as much as there is room for. */
  function fill(sink: Sink): void {
    const lane = all.get(sink)
    while (lane && lane.active < concurrency && lane.waiting.length > 0) {
      const latestEnd = clock.monotonic() + timeoutMs
      const startable: HeldJob[] = []
      for (const held of lane.waiting.splice(0, sink.maxBatch ?? lane.waiting.length)) {
        if (latestEnd <= held.certainUntil) startable.push(held)
        // Its lease might run out during the delivery, and another relay would deliver it at the same time.
        else onEnd(held, 'released')
      }
      if (startable.length === 0) continue
      lane.active += 1
      void send(sink, startable).finally(() => {
        lane.active -= 1
        fill(sink)
      })
    }
  }

  async function send(sink: Sink, chunk: readonly HeldJob[]): Promise<void> {
    const startedAt = clock.monotonic()
    const sent: { readonly held: HeldJob; readonly job: Job }[] = []
    for (const held of chunk) {
      const read = jobOf(held.job)
      if ('error' in read) onEnd(held, { delivery: notDelivered(read.error), durationMs: 0 })
      else sent.push({ held, job: read })
    }
    if (sent.length === 0) return
    const jobs = sent.map(({ job }) => job)
    const deliveries = await deliver(sink, jobs, timeoutMs, clock)
    const durationMs = clock.monotonic() - startedAt
    sent.forEach(({ held }, index) => {
      onEnd(held, { delivery: deliveries[index] as Delivery, durationMs })
    })
  }

  return {
    add(jobs: readonly HeldJob[]): void {
      const sinks = new Set(jobs.map(({ sink }) => sink))
      for (const held of jobs) {
        const lane = all.get(held.sink) ?? { waiting: [], active: 0 }
        all.set(held.sink, lane)
        lane.waiting.push(held)
      }
      for (const sink of sinks) fill(sink)
    },
    /** Gives back what has not begun. */
    clear(): void {
      for (const { waiting } of all.values()) for (const held of waiting.splice(0)) onEnd(held, 'released')
    },
  }
}

/** One that cannot be read fails alone: the key that sealed it may come back, or somebody wrote it by hand. */
function jobOf({ id, tenant, name, payload, group, attempt, stagedAt, unreadable }: TakenJob): Job | { readonly error: unknown } {
  try {
    return unreadable ? { error: unreadable } : { id, tenant, name, payload: JSON.parse(payload), group, attempt, stagedAt }
  } catch (error) {
    return { error }
  }
}
