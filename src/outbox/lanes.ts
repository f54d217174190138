import type { Clock } from '../core/clock.js'
import { parsedAscii } from '../core/json-text.js'
import type { JobPayload, TakenJob } from '../core/store.js'
import { deliver } from './deliver.js'
import { createRoom } from './room.js'
import { type Delivery, type Job, notDelivered, type Sink } from './sink.js'

/** A job that this relay holds. */
export interface HeldJob {
  readonly job: TakenJob
  readonly token: string
  readonly sink: Sink
  /** Until then no other relay can take it; on the monotonic clock. */
  readonly certainUntil: number
  readonly takenAt: number
}

/** How it ended here. `released`: not tried. */
export type Ended = 'released' | { readonly delivery: Delivery; readonly durationMs: number }

export interface LaneOptions {
  readonly clock: Clock
  /** Concurrent deliveries per sink. */
  readonly concurrency: number
  readonly timeoutMs: number
  /** The most bytes of payloads held at once, for all sinks together. */
  readonly maxBytes: number
  /** Reads payloads that did not come with the take. Never rejects; a job whose payload is null is released. */
  readonly read: (jobs: readonly HeldJob[]) => Promise<readonly (JobPayload | null)[]>
  readonly onEnd: (held: HeldJob, ended: Ended) => void
}

/** The most bytes read by one statement, unless a single payload is larger. */
const readBytesAtOnce = 1_048_576

/** A job with its payload. */
interface ReadyJob {
  readonly held: HeldJob
  readonly found: JobPayload
  readonly kind: 'along' | 'read'
}

interface Lane {
  readonly ready: ReadyJob[]
  readonly unread: HeldJob[]
  active: number
  isReading: boolean
}

/** Jobs on their way to sinks. Each sink has its own queue, so that a slow one does not block the others. */
export function lanes({ clock, concurrency, timeoutMs, maxBytes, read, onEnd }: LaneOptions) {
  const all = new Map<Sink, Lane>()
  const room = createRoom<Sink>(maxBytes)
  let clears = 0
  let isWaking = false

  /** Fills the free slots, and reads the next payloads. */
  function fill(sink: Sink): void {
    const lane = laneOf(sink)
    while (lane.active < concurrency && lane.ready.length > 0) {
      const startable = nextReady(sink, lane)
      if (startable.length === 0) continue
      lane.active += 1
      void send(sink, startable.map(begun)).finally(() => {
        lane.active -= 1
        fill(sink)
      })
    }
    if (lane.isReading) return
    // Only once there is a slot: a slow sink would fill the memory with payloads.
    if (lane.active < concurrency && lane.unread.length > 0) void readNext(sink, lane)
    else if (room.giveUp(sink)) wake()
  }

  function nextReady({ maxBatch }: Sink, { ready }: Lane): ReadyJob[] {
    return ready.splice(0, maxBatch ?? ready.length).filter((job) => {
      const isInTime = canStart(job.held)
      if (!isInTime) end(job, 'released')
      return isInTime
    })
  }

  /** Otherwise the lease might expire during the delivery, and another relay would deliver the job too. */
  function canStart({ certainUntil }: HeldJob): boolean {
    return clock.monotonic() + timeoutMs <= certainUntil
  }

  async function readNext(sink: Sink, lane: Lane): Promise<void> {
    const jobs = nextUnread(sink, lane)
    if (jobs.length === 0) return
    const before = clears
    lane.isReading = true
    const found = await read(jobs)
    lane.isReading = false
    jobs.forEach((held, index) => {
      const payload = found[index]
      if (payload && clears === before) lane.ready.push({ held, found: payload, kind: 'read' })
      else end({ held, kind: 'read' }, 'released')
    })
    fill(sink)
  }

  function nextUnread(sink: Sink, { unread }: Lane): HeldJob[] {
    const next: HeldJob[] = []
    let bytes = 0
    for (let held = unread[0]; held; held = unread[0]) {
      bytes += held.job.payloadBytes
      if (canStart(held)) {
        if (next.length > 0 && bytes > readBytesAtOnce) break
        if (!room.mayRead(sink, held.job.payloadBytes)) break
        next.push(held)
      } else onEnd(held, 'released')
      unread.shift()
    }
    if (unread.length === 0 && room.giveUp(sink)) wake()
    return next
  }

  /** Sinks that wait for room try again at the end of this turn. */
  function wake(): void {
    if (isWaking || room.waiters().length === 0) return
    isWaking = true
    queueMicrotask(() => {
      isWaking = false
      for (const sink of room.waiters()) fill(sink)
    })
  }

  async function send(sink: Sink, chunk: readonly BegunJob[]): Promise<void> {
    const startedAt = clock.monotonic()
    const sent = chunk.filter((each): each is BegunJob & { readonly job: Job } => 'job' in each)
    for (const each of chunk) if ('error' in each) end(each, { delivery: notDelivered(each.error), durationMs: 0 })
    if (sent.length > 0) {
      const jobs = sent.map(({ job }) => job)
      const deliveries = await deliver(sink, jobs, timeoutMs, clock)
      const durationMs = clock.monotonic() - startedAt
      sent.forEach((each, index) => {
        end(each, { delivery: deliveries[index] as Delivery, durationMs })
      })
    }
  }

  function end({ held, kind }: Pick<ReadyJob, 'held' | 'kind'>, ended: Ended): void {
    room.leave(held.job.payloadBytes, kind)
    wake()
    onEnd(held, ended)
  }

  function laneOf(sink: Sink): Lane {
    const known = all.get(sink)
    if (known) return known
    const lane: Lane = { ready: [], unread: [], active: 0, isReading: false }
    all.set(sink, lane)
    return lane
  }

  return {
    /** The limit of payload bytes is reached. */
    isFull: () => room.isFull(),
    add(jobs: readonly HeldJob[]): void {
      for (const held of jobs) {
        const { ready, unread } = laneOf(held.sink)
        const { payload, payloadBytes, unreadable } = held.job
        if (payload === null) unread.push(held)
        else {
          room.enter(payloadBytes)
          ready.push({ held, found: unreadable ? { payload, unreadable } : { payload }, kind: 'along' })
        }
      }
      for (const sink of new Set(jobs.map(({ sink }) => sink))) fill(sink)
    },
    /** Releases unstarted jobs. */
    clear(): void {
      clears += 1
      for (const [sink, { ready, unread }] of all) {
        room.giveUp(sink)
        for (const job of ready.splice(0)) end(job, 'released')
        for (const held of unread.splice(0)) onEnd(held, 'released')
      }
    },
  }
}

/** A job as its sink gets it, without its text, which may be as large as the payload. */
type BegunJob = Pick<ReadyJob, 'held' | 'kind'> & ({ readonly job: Job } | { readonly error: unknown })

/** A job that cannot be read fails alone: its encryption key may come back. */
function begun({ held, kind, found: { payload, unreadable } }: ReadyJob): BegunJob {
  const { id, tenant, name, group, attempt, stagedAt } = held.job
  try {
    if (unreadable) return { held, kind, error: unreadable }
    return { held, kind, job: { id, tenant, name, payload: parsedAscii(payload), group, attempt, stagedAt } }
  } catch (error) {
    return { held, kind, error }
  }
}
