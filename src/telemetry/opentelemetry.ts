import type { Counter, Histogram, Span } from '@opentelemetry/api'
import { OncekeyError } from '../core/errors.js'
import { isError, thrownText } from '../core/thrown-text.js'
import type { SpanAttributes, Telemetry } from '../engine/telemetry.js'
import { bucketSeconds, type InstrumentName, instruments } from './instruments.js'
import { measurementsOf, verdicts } from './measurements.js'

// The user's own copy, if installed. Awaited once at load, so that no event comes before it.
const api = await import('@opentelemetry/api').catch(() => undefined)

export interface TelemetryOptions {
  /**
   * The name of a scope in metrics and spans. It must return few names: each is its own time series. Default: the scope (for operations, their
   * name); of endpoint scopes (`POST /orders/123`) only the method, because paths are unbounded.
   */
  scopeName?: (scope: string) => string
  /** Puts tenant, whole scope and key on the spans of runs, to find the trace of a key. They are client data. Default false. */
  keys?: boolean
  /**
   * The age of the oldest undelivered job, in milliseconds: `() => store.steps.jobsLagMs()`. Called at each collection, so set it in one
   * process only. Default: no gauge.
   */
  outboxLagMs?: () => Promise<number>
}

/** Metrics and spans through `@opentelemetry/api`. Without that package, or without an SDK, it does nothing. */
export function telemetry({ scopeName = endpointsByMethod, keys = false, outboxLagMs }: TelemetryOptions = {}): Telemetry {
  checkOptions(scopeName, keys, outboxLagMs)
  if (!api) return { onEvent() {}, span: (_name, _attributes, work) => work() }
  const { trace, context, ROOT_CONTEXT, SpanStatusCode } = api
  const tracer = trace.getTracer('oncekey')
  const record = recorder(api, outboxLagMs)
  record([])

  return {
    onEvent(event) {
      record(measurementsOf(event, scopeName))
      // Reported while the request runs, so the active span is its own.
      if (event.type in verdicts) {
        trace.getActiveSpan()?.setAttribute('oncekey.verdict', verdicts[event.type as keyof typeof verdicts])
      }
    },

    span: <T>(name: string, attributes: SpanAttributes, work: () => Promise<T>) =>
      tracer.startActiveSpan(name, { attributes: published(attributes) }, async (span: Span) => {
        try {
          return await work()
        } catch (error) {
          span.recordException(isError(error) ? error : thrownText(error))
          span.setStatus({ code: SpanStatusCode.ERROR, message: thrownText(error) })
          throw error
        } finally {
          span.end()
        }
      }),

    apart: (work) => context.with(ROOT_CONTEXT, work),
  }

  /** Tenant and key are removed unless `keys` is set. */
  function published(attributes: SpanAttributes): SpanAttributes {
    if (keys || attributes['oncekey.scope'] === undefined) return attributes
    const { 'oncekey.tenant': _tenant, 'oncekey.key': _key, 'oncekey.scope': scope, ...others } = attributes
    return { ...others, 'oncekey.scope': scopeName(String(scope)) }
  }
}

/** `POST /orders/123` and, for long paths, `POST sha256:…` are endpoint scopes; others are names that the service chose. */
function endpointsByMethod(scope: string): string {
  return /^(\S+) (?:\/|sha256:)/.exec(scope)?.[1] ?? scope
}

type Api = typeof import('@opentelemetry/api')

/**
 * Records to the current meter provider. Unlike a tracer, a meter created before the SDK starts never records, so instruments are created
 * lazily, and again when the provider changes.
 */
function recorder({ metrics }: Api, outboxLagMs: TelemetryOptions['outboxLagMs']) {
  let provider: unknown
  let made: Partial<Record<InstrumentName, Counter | Histogram>> = {}

  return function record(measurements: ReturnType<typeof measurementsOf>): void {
    const current = metrics.getMeterProvider()
    if (current !== provider) {
      provider = current
      made = instrumentsOf()
    }
    for (const { of, value, attributes } of measurements) {
      const prefixed = Object.fromEntries(Object.entries(attributes).map(([name, text]) => [`oncekey.${name}`, text]))
      const instrument = made[of] as Counter | Histogram
      if ('add' in instrument) instrument.add(value, prefixed)
      else instrument.record(value, prefixed)
    }
  }

  function instrumentsOf(): typeof made {
    const meter = metrics.getMeter('oncekey')
    const all: typeof made = {}
    for (const [key, { name, kind, unit, description }] of Object.entries(instruments)) {
      if (kind === 'counter') all[key as InstrumentName] = meter.createCounter(name, { unit, description })
      if (kind === 'histogram') {
        all[key as InstrumentName] = meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries: bucketSeconds } })
      }
      if (kind === 'gauge' && outboxLagMs) {
        meter.createObservableGauge(name, { unit, description }).addCallback(async (gauge) => gauge.observe((await outboxLagMs()) / 1000))
      }
    }
    return all
  }
}

function checkOptions(scopeName: unknown, keys: unknown, outboxLagMs: unknown): void {
  const functions = [scopeName, outboxLagMs].every((option) => option === undefined || typeof option === 'function')
  if (functions && typeof keys === 'boolean') return
  throw new OncekeyError('option_invalid', 'telemetry() needs functions as scopeName and outboxLagMs, and a boolean as keys.')
}
