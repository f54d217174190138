import { OncekeyError } from '../core/errors.js'
import { type OnceEvent, warn } from './events.js'

export type SpanAttributes = Readonly<Record<string, string | number | boolean>>

/** What `createOnce({ telemetry })` takes: `telemetry()` of oncekey/opentelemetry, or your own. */
export interface Telemetry {
  onEvent(event: OnceEvent): unknown
  /**
   * Calls `work` at once, inside an open span, so that spans of the work nest below it. Runs are `oncekey.run`, their steps
   * `oncekey.phase NAME`, `oncekey.call NAME` and `oncekey.finish`.
   */
  span<T>(name: string, attributes: SpanAttributes, work: () => Promise<T>): Promise<T>
  /** Calls `work` outside every span: heartbeats serve all runs and belong to no request. Default: just calls it. */
  apart?<T>(work: () => T): T
}

export function checkTelemetry(telemetry: Telemetry): void {
  if (typeof telemetry.onEvent === 'function' && typeof telemetry.span === 'function') return
  throw new OncekeyError(
    'option_invalid',
    'telemetry must have onEvent() and span(): pass what telemetry() of oncekey/opentelemetry returns.',
  )
}

export type Span = <T>(name: string, attributes: SpanAttributes, work: () => Promise<T>) => Promise<T>

/** Spans that cannot affect the work: it runs exactly once and its own result counts, whatever the telemetry does. */
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

/** An error of the work also leaves its span, and is no fault of the telemetry. */
function warnUnlessOwn(work: Promise<unknown>, error: unknown): void {
  work.then(
    () => warn('telemetry', error),
    (own: unknown) => {
      if (own !== error) warn('telemetry', error)
    },
  )
}

/** Runs `work` outside every span; directly, if the telemetry fails. */
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
