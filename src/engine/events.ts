import type { FingerprintPart } from '../core/fingerprint/fingerprint.js'
import type { KeyRef } from '../core/key.js'

/** What happened to a key in this process, for logs and metrics. */
export type OnceEvent = KeyRef &
  /** The store could not be asked for the key, or what it has cannot be read: nothing has run, unless `failOpen` lets it. */
  (
    | { readonly type: 'not-claimed'; readonly error: unknown }
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
    /** The `redact` hook threw, or did not return an answer: of the answer only the status is kept. */
    | { readonly type: 'redaction-failed'; readonly error: unknown }
  )

type WithoutKey<Event> = Event extends unknown ? Omit<Event, keyof KeyRef> : never

export type Report = (ref: KeyRef, event: WithoutKey<OnceEvent>) => void

/** A listener that throws must not change what happens to a key. */
export function reporter(listener: ((event: OnceEvent) => unknown) | undefined): Report {
  if (!listener) return () => {}
  return function report({ tenant, scope, key }, event) {
    try {
      const result: unknown = listener({ tenant, scope, key, ...event } as OnceEvent)
      if (result instanceof Promise) result.catch(warn)
    } catch (error) {
      warn(error)
    }
  }
}

function warn(error: unknown): void {
  process.emitWarning(`onEvent threw: ${String(error)}`, { code: 'ONCEKEY_LISTENER' })
}
