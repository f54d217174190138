import type { Counter, Histogram, Span } from '@opentelemetry/api'
import { OncekeyError } from '../core/errors.js'
import { isError, thrownText } from '../core/thrown-text.js'
import type { SpanAttributes, Telemetry } from '../engine/telemetry.js'
import { bucketSeconds, type InstrumentName, instruments } from './instruments.js'
import { measurementsOf, verdicts } from './measurements.js'

// The user's own copy, if there is one. Waited for here, once, so that no event comes before it.
const api = await import('@opentelemetry/api').catch(() => undefined)

export interface TelemetryOptions {
  /**
   * Says what a scope is called in metrics and spans. It must give few names: each is a time series of its own. Default: the scope, which
   * for operations is their name; of scopes that are an endpoint (`POST /orders/123`) only the method, because paths have no end.
   */
  scopeName?: (scope: string) => string
  /** Puts tenant, whole scope and key on the spans of runs, for finding the trace of a key. They are data of your clients. Default false. */
  keys?: boolean
  /**
   * The age of the oldest undelivered job, in milliseconds: `() => store.steps.jobsLagMs()`. Asked when a reader collects, so give it to
   * one process. Default: the gauge is not there.
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
      // These come while the request that asked is at work, so the active span is its.
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

  /** Whose key it is stays at home unless it is asked for. */
  function published(attributes: SpanAttributes): SpanAttributes {
    if (keys || attributes['oncekey.scope'] === undefined) return attributes
    const { 'oncekey.tenant': _tenant, 'oncekey.key': _key, 'oncekey.scope': scope, ...others } = attributes
    return { ...others, 'oncekey.scope': scopeName(String(scope)) }
  }
}

/** `POST /orders/123` and, for long paths, `POST sha256:…` are what `scope: 'endpoint'` makes; everything else is a name of the service's. */
function endpointsByMethod(scope: string): string {
  return /^(\S+) (?:\/|sha256:)/.exec(scope)?.[1] ?? scope
}

type Api = typeof import('@opentelemetry/api')

/**
 * Writes measurements to the meter provider that is in force. Unlike a tracer, a meter that was made before the SDK was started stays deaf
 * for good: so the instruments are made when they are needed, and again if there is another provider.
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
  throw new OncekeyError('option_invalid', 'telemetry() takes functions as scopeName and outboxLagMs, and true or false as keys.')
}
