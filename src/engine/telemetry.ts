import { OncekeyError } from '../core/errors.js'
import { type OnceEvent, warn } from './events.js'

export type SpanAttributes = Readonly<Record<string, string | number | boolean>>

/** What `createOnce({ telemetry })` takes: `telemetry()` of oncekey/opentelemetry, or a few lines of one's own. */
export interface Telemetry {
  onEvent(event: OnceEvent): unknown
  /**
   * Calls `work` at once, with the span open while it goes on, so that what the work does nests below it. Runs are `oncekey.run`, their
   * steps `oncekey.phase NAME`, `oncekey.call NAME` and `oncekey.finish`.
   */
  span<T>(name: string, attributes: SpanAttributes, work: () => Promise<T>): Promise<T>
  /** Calls `work` outside of every span: heartbeats are for all runs of the process, and belong to no request. Default: just calls it. */
  apart?<T>(work: () => T): T
}

export function checkTelemetry(telemetry: Telemetry): void {
  if (typeof telemetry.onEvent === 'function' && typeof telemetry.span === 'function') return
  throw new OncekeyError('option_invalid', 'telemetry has onEvent() and span(): pass what telemetry() of oncekey/opentelemetry returns.')
}

export type Span = <T>(name: string, attributes: SpanAttributes, work: () => Promise<T>) => Promise<T>

/**
 * Spans around the work that cannot change what comes of it: the work is done exactly once and its own end is what counts, whatever
 * the telemetry does. Nothing waits for it.
 */
export function guardedSpan(telemetry: Telemetry): Span {
  return function span<T>(name: string, attributes: SpanAttributes, work: () => Promise<T>): Promise<T> {
    let begun: Promise<T> | undefined
    const once = () => {
      begun ??= work()
      return begun
    }
    try {
      const ended: unknown = telemetry.span(name, attributes, once)
      if (ended instanceof Promise) ended.catch((error: unknown) => warnUnlessOwn(once(), error))
    } catch (error) {
      warn('telemetry', error)
    }
    return once()
  }
}

/** What the work threw comes out of its span too, and is no fault of the telemetry's. */
function warnUnlessOwn(work: Promise<unknown>, error: unknown): void {
  work.then(
    () => warn('telemetry', error),
    (own: unknown) => {
      if (own !== error) warn('telemetry', error)
    },
  )
}

/** Runs `work` outside of every span; by itself, if the telemetry fails. */
export function guardedApart(telemetry: Telemetry): (work: () => void) => void {
  return function apart(work) {
    let done = false
    const once = () => {
      if (done) return
      done = true
      work()
    }
    try {
      telemetry.apart?.(once)
    } catch (error) {
      warn('telemetry', error)
    }
    once()
  }
}
