import { metrics } from '@opentelemetry/api'
import {
  AggregationTemporality,
  type HistogramMetricData,
  InMemoryMetricExporter,
  MeterProvider,
  type MetricData,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { NodeTracerProvider } from '@opentelemetry/sdk-trace-node'

/** A real SDK for metrics, put in force as a user's start-up does, that exports into memory. */
export function startMetrics() {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 2 ** 30 })
  metrics.disable()
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }))

  /** Everything that was measured so far, by name. */
  async function collect(): Promise<Map<string, MetricData>> {
    exporter.reset()
    await reader.forceFlush()
    const all = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics))
    return new Map(all.map((metric) => [metric.descriptor.name, metric]))
  }

  return {
    collect,
    /** The points of a counter or gauge: their values, by their attributes. */
    async values(name: string): Promise<{ attributes: object; value: unknown }[]> {
      return ((await collect()).get(name)?.dataPoints ?? []).map(({ attributes, value }) => ({ attributes, value }))
    },
    /** The points of a histogram. */
    async durations(name: string): Promise<{ attributes: object; count: number; sum: number }[]> {
      const metric = (await collect()).get(name) as HistogramMetricData | undefined
      return (metric?.dataPoints ?? []).map(({ attributes, value: { count, sum } }) => ({ attributes, count, sum: sum ?? 0 }))
    },
  }
}

/** The same for spans. Once in a process: tracers stay with the first provider that they met. */
export function startTraces() {
  const exporter = new InMemorySpanExporter()
  new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register()
  return {
    reset: () => exporter.reset(),
    /** Those that ended, in that order. */
    spans: (): ReadableSpan[] => exporter.getFinishedSpans(),
  }
}
