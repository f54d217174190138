import type { FingerprintPart } from '../core/fingerprint/fingerprint.js'
import type { KeyRef } from '../core/key.js'
import { namedThrownText } from '../core/thrown-text.js'

/**
 * What happened to a key in this process, for logs and metrics. Each `durationMs` is by the monotonic clock; that of a run counts from
 * the claim, and is absent where this process did not run it.
 */
export type KeyEvent = KeyRef &
  /** The store could not be asked for the key, or what it has cannot be read: nothing has run, unless `failOpen` lets it. */
  (
    | { readonly type: 'not-claimed'; readonly error: unknown }
    /** `takenOver`: an earlier attempt did not finish, and this one goes on after `recoveryPoint`, the last step that is committed. */
    | {
        readonly type: 'executing'
        readonly attempt: number
        readonly takenOver: boolean
        readonly recoveryPoint: string | null
        readonly by: 'request' | 'worker'
      }
    | { readonly type: 'replayed'; readonly state: 'complete' | 'failed' }
    | { readonly type: 'met-in-progress'; readonly retryAfterMs: number }
    | { readonly type: 'mismatched'; readonly part: FingerprintPart }
    | { readonly type: 'met-parked' }
    | { readonly type: 'phase-committed'; readonly name: string; readonly durationMs: number }
    | { readonly type: 'call-returned'; readonly name: string; readonly durationMs: number }
    /** The other side refused it for good. */
    | { readonly type: 'call-refused'; readonly name: string; readonly durationMs: number; readonly error: unknown }
    /** `retry`: it did not happen. `unknown`: nobody knows. */
    | {
        readonly type: 'call-failed'
        readonly name: string
        readonly durationMs: number
        readonly meaning: 'retry' | 'unknown'
        readonly error: unknown
      }
    /** The other side was asked about a call of an earlier attempt. */
    | { readonly type: 'call-looked-up'; readonly name: string; readonly found: 'happened' | 'did-not-happen' | 'unknown' }
    /** `committed: false`: the answer is in a transaction of the user's, and counts when that is committed. */
    | { readonly type: 'finished'; readonly status: number; readonly durationMs: number; readonly committed: boolean }
    | { readonly type: 'released'; readonly error: unknown; readonly durationMs?: number }
    | { readonly type: 'failed'; readonly error: unknown; readonly durationMs?: number }
    | { readonly type: 'parked'; readonly error: unknown; readonly durationMs?: number }
    /** Another holder took the key over; whatever this one still does is not stored. Told once in a run. */
    | { readonly type: 'lease-lost' }
    /** No heartbeat was confirmed in time, so the work was told to stop. */
    | { readonly type: 'lease-in-doubt' }
    | { readonly type: 'max-run-exceeded' }
    | { readonly type: 'heartbeat-failed'; readonly error: unknown }
    /** The work is done, but the store could not be told: a retry will find the key as its `afterFailure` says. */
    | { readonly type: 'answer-not-stored'; readonly error: unknown; readonly durationMs?: number }
    /** The `redact` hook threw, or did not return an answer: of the answer only the status is kept. */
    | { readonly type: 'redaction-failed'; readonly error: unknown }
    /** The body is over `maxAnswerBytes`: it is not stored, and a replay does not have it. */
    | { readonly type: 'answer-omitted'; readonly bytes: number; readonly capBytes: number }
    /** The store could not be asked, and under `failOpen` the handler runs without protection. */
    | { readonly type: 'failed-open'; readonly error: unknown }
    /** A person's word on a parked key. */
    | { readonly type: 'resolved'; readonly as: 'happened' | 'did-not-happen' | 'failed'; readonly by: string }
    /** The key is left to workers. */
    | { readonly type: 'enqueued' }
    /** The holder was gone, and background work gave the key back or ended it. It says it all: no `failed` or `parked` comes with it. */
    | { readonly type: 'swept'; readonly fence: number; readonly to: 'pending' | 'failed' | 'parked'; readonly reason: string }
    /** No worker took the key in time: it ended with a 408, and never ran. */
    | { readonly type: 'timed-out' }
  )

/** What background work of this process did, in one turn over many keys. */
export type WorkerEvent =
  /** `counts` are by what was done: `{ reaped: 12 }`. */
  | {
      readonly type: 'worker-ran'
      readonly worker: string
      readonly counts: Readonly<Record<string, number>>
      readonly durationMs: number
    }
  /** A reconciler compared everything, and the two sides do not agree. `counts` are of what it found. */
  | {
      readonly type: 'differences-found'
      readonly worker: string
      readonly counts: Readonly<Record<string, number>>
    }
  /** A turn failed as a whole; the next one comes in its time. */
  | { readonly type: 'worker-failed'; readonly worker: string; readonly error: unknown }

/** What became of a job that the relay of this process had. */
export type JobEvent = JobTold &
  /** `waitedMs`: from when it could have been delivered until it was. */
  (
    | { readonly type: 'job-delivered'; readonly durationMs: number; readonly waitedMs: number }
    /** It is tried again. */
    | { readonly type: 'job-failed'; readonly error: unknown; readonly durationMs: number; readonly retryInMs: number }
    /** It is given up, for a person to look at. */
    | { readonly type: 'job-dead'; readonly error: unknown; readonly durationMs: number }
    /** The store could not be told what became of it, or somebody else has it by now: it may be delivered again. */
    | { readonly type: 'job-unsettled'; readonly error: unknown }
  )

interface JobTold {
  readonly tenant: string
  readonly id: string
  readonly job: string
  readonly group: string | null
  readonly attempt: number
  readonly sink: string
}

export type OnceEvent = KeyEvent | WorkerEvent | JobEvent

type WithoutKey<Event> = Event extends unknown ? Omit<Event, keyof KeyRef> : never

export type Report = (ref: KeyRef, event: WithoutKey<KeyEvent>) => void
export type ReportWorker = (event: WorkerEvent | JobEvent) => void

/** Who is told, by the option that named them: a warning says whose fault it is. */
export type Listeners = Readonly<Record<string, ((event: OnceEvent) => unknown) | undefined>>

/** A listener that throws must not change what happens to a key, nor what the other listeners hear. */
export function reporter(listeners: Listeners): { readonly report: Report; readonly reportWorker: ReportWorker } {
  const told = Object.entries(listeners).flatMap(([name, listener]) => (listener ? [{ name, listener }] : []))
  if (told.length === 0) return { report: () => {}, reportWorker: () => {} }

  function reportWorker(event: OnceEvent): void {
    for (const { name, listener } of told) {
      try {
        const result: unknown = listener(event)
        if (result instanceof Promise) result.catch((error: unknown) => warn(name, error))
      } catch (error) {
        warn(name, error)
      }
    }
  }
  return {
    report: ({ tenant, scope, key }, event) => reportWorker({ tenant, scope, key, ...event } as KeyEvent),
    reportWorker,
  }
}

export function warn(name: string, error: unknown): void {
  process.emitWarning(`${name} threw: ${namedThrownText(error)}`, { code: 'ONCEKEY_LISTENER' })
}
