import type { FingerprintPart } from '../core/fingerprint/fingerprint.js'
import type { KeyRef } from '../core/key.js'
import { namedThrownText } from '../core/thrown-text.js'

/**
 * What happened to a key in this process, for logs and metrics. Each `durationMs` is by the monotonic clock; that of a run counts from the
 * claim, and is absent where this process did not run it.
 */
export type KeyEvent = KeyRef &
  /** The claim failed, or the stored key cannot be read: nothing has run, unless `failOpen` lets it. */
  (
    | { readonly type: 'not-claimed'; readonly error: unknown }
    /** `takenOver`: an earlier attempt did not finish; this one resumes after `recoveryPoint`, the last committed step. */
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
    /** `retry`: it did not happen. `unknown`: it may have. */
    | {
        readonly type: 'call-failed'
        readonly name: string
        readonly durationMs: number
        readonly meaning: 'retry' | 'unknown'
        readonly error: unknown
      }
    /** The other side was asked about a call of an earlier attempt. */
    | { readonly type: 'call-looked-up'; readonly name: string; readonly found: 'happened' | 'did-not-happen' | 'unknown' }
    /** `committed: false`: the answer is in the user's transaction, and counts once that commits. */
    | { readonly type: 'finished'; readonly status: number; readonly durationMs: number; readonly committed: boolean }
    | { readonly type: 'released'; readonly error: unknown; readonly durationMs?: number }
    | { readonly type: 'failed'; readonly error: unknown; readonly durationMs?: number }
    | { readonly type: 'parked'; readonly error: unknown; readonly durationMs?: number }
    /** Another holder took the key over; nothing more of this attempt is stored. Reported once per run. */
    | { readonly type: 'lease-lost' }
    /** No heartbeat was confirmed in time, so the work was aborted. */
    | { readonly type: 'lease-in-doubt' }
    | { readonly type: 'max-run-exceeded' }
    | { readonly type: 'heartbeat-failed'; readonly error: unknown }
    /** The work is done, but its result was not stored: a retry finds the key as its `afterFailure` says. */
    | { readonly type: 'answer-not-stored'; readonly error: unknown; readonly durationMs?: number }
    /** The `redact` hook threw, or did not return an answer: only the status is stored. */
    | { readonly type: 'redaction-failed'; readonly error: unknown }
    /** The body exceeds `maxAnswerBytes`: it is not stored, and a replay does not have it. */
    | { readonly type: 'answer-omitted'; readonly bytes: number; readonly capBytes: number }
    /** The store was unavailable, and under `failOpen` the handler runs without protection. */
    | { readonly type: 'failed-open'; readonly error: unknown }
    /** An operator resolved a parked key. */
    | { readonly type: 'resolved'; readonly as: 'happened' | 'did-not-happen' | 'failed'; readonly by: string }
    /** Enqueued for workers. */
    | { readonly type: 'enqueued' }
    /** The holder was gone, and the sweeper released or ended the key. No separate `failed` or `parked` is reported. */
    | { readonly type: 'swept'; readonly fence: number; readonly to: 'pending' | 'failed' | 'parked'; readonly reason: string }
    /** No worker claimed the key in time: it ended with a 408 and never ran. */
    | { readonly type: 'timed-out' }
  )

/** What background work of this process did, in one run over many keys. */
export type WorkerEvent =
  /** `counts` by action: `{ reaped: 12 }`. */
  | {
      readonly type: 'worker-ran'
      readonly worker: string
      readonly counts: Readonly<Record<string, number>>
      readonly durationMs: number
    }
  /** A complete reconciliation found differences, given as `counts`. */
  | {
      readonly type: 'differences-found'
      readonly worker: string
      readonly counts: Readonly<Record<string, number>>
    }
  /** A whole run failed; the next one comes on schedule. */
  | { readonly type: 'worker-failed'; readonly worker: string; readonly error: unknown }

/** How a job ended that this process's relay held. */
export type JobEvent = JobTold &
  /** `waitedMs`: from when it was due until it was delivered. */
  (
    | { readonly type: 'job-delivered'; readonly durationMs: number; readonly waitedMs: number }
    /** It will be retried. */
    | { readonly type: 'job-failed'; readonly error: unknown; readonly durationMs: number; readonly retryInMs: number }
    /** It is now a dead letter. */
    | { readonly type: 'job-dead'; readonly error: unknown; readonly durationMs: number }
    /** Its result was not stored, or another relay holds it: it may be delivered again. */
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

/** Listeners, by the option that named them: a warning names the option. */
export type Listeners = Readonly<Record<string, ((event: OnceEvent) => unknown) | undefined>>

/** A listener that throws must not affect the key or the other listeners. */
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
