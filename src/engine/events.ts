import type { FingerprintPart } from '../core/fingerprint/fingerprint.js'
import type { KeyRef } from '../core/key.js'

/** What happened in this process, for logs and metrics. */
export type OnceEvent = KeyEvent | WorkerEvent

/** What background work did, that is about no single key. */
export type WorkerEvent =
  | { readonly type: 'worker-ran'; readonly worker: string; readonly counts: Readonly<Record<string, number>>; readonly durationMs: number }
  /** It goes on: the next look comes as planned. */
  | { readonly type: 'worker-failed'; readonly worker: string; readonly error: unknown }

/** What happened to a key in this process. */
export type KeyEvent = KeyRef &
  (
    | { readonly type: 'executing'; readonly attempt: number }
    | { readonly type: 'replayed'; readonly state: 'complete' | 'failed' }
    | { readonly type: 'met-in-progress'; readonly retryAfterMs: number }
    | { readonly type: 'mismatched'; readonly part: FingerprintPart }
    | { readonly type: 'met-parked' }
    | { readonly type: 'finished'; readonly status: number }
    | { readonly type: 'released'; readonly error: unknown }
    | { readonly type: 'failed'; readonly error: unknown }
    | { readonly type: 'parked'; readonly error: unknown }
    /** Another holder took the key over; whatever this one still does is not stored. */
    | { readonly type: 'lease-lost' }
    /** No heartbeat was confirmed in time, so the work was told to stop. */
    | { readonly type: 'lease-in-doubt' }
    | { readonly type: 'max-run-exceeded' }
    | { readonly type: 'heartbeat-failed'; readonly error: unknown }
    /** The work is done, but the store could not be told: a retry will find the key as its `afterFailure` says. */
    | { readonly type: 'answer-not-stored'; readonly error: unknown }
    /** Its holder was gone, and the sweeper took it back: to pending, or to what its `afterFailure` says. */
    | { readonly type: 'swept'; readonly fence: number; readonly to: 'pending' | 'failed' | 'parked'; readonly reason: string }
    /** It was left to workers, and none came to it within its retention: it failed with 408, and nothing was done. */
    | { readonly type: 'timed-out' }
    /** The `redact` hook threw, or did not return an answer: of the answer only the status is kept. */
    | { readonly type: 'redaction-failed'; readonly error: unknown }
  )

type WithoutKey<Event> = Event extends unknown ? Omit<Event, keyof KeyRef> : never

export type Report = (ref: KeyRef, event: WithoutKey<KeyEvent>) => void

/** A listener that throws must not change what happens to a key. */
export function reporter(listener: ((event: OnceEvent) => unknown) | undefined): Report {
  if (!listener) return () => {}
  return function report({ tenant, scope, key }, event) {
    tell(listener, { tenant, scope, key, ...event } as KeyEvent)
  }
}

/** The same for what is about no single key. */
export function workerReporter(listener: ((event: OnceEvent) => unknown) | undefined): (event: WorkerEvent) => void {
  return (event) => listener && tell(listener, event)
}

function tell(listener: (event: OnceEvent) => unknown, event: OnceEvent): void {
  try {
    const result: unknown = listener(event)
    if (result instanceof Promise) result.catch(warn)
  } catch (error) {
    warn(error)
  }
}

function warn(error: unknown): void {
  process.emitWarning(`onEvent threw: ${String(error)}`, { code: 'ONCEKEY_LISTENER' })
}
