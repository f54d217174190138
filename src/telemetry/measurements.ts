import type { JobEvent, OnceEvent } from '../engine/events.js'
import type { InstrumentName } from './instruments.js'

/** One data point: an amount for a counter, seconds for a histogram. */
export interface Measurement {
  readonly of: InstrumentName
  readonly value: number
  /** Without prefix. */
  readonly attributes: Readonly<Record<string, string>>
}

/** The name of each verdict, by its event. */
export const verdicts = {
  executing: 'execute',
  replayed: 'replay',
  'met-in-progress': 'in-progress',
  mismatched: 'mismatch',
  'met-parked': 'parked',
} as const

/** The measurements of an event. Pure, so that all rules are in one place. */
export function measurementsOf(event: OnceEvent, scopeName: (scope: string) => string): Measurement[] {
  if (event.type === 'worker-ran') {
    const { worker, counts, durationMs } = event
    const items = Object.entries(counts).filter(([, count]) => count > 0)
    return [
      { of: 'workerDuration', value: durationMs / 1000, attributes: { worker } },
      ...items.map(([item, value]) => ({ of: 'workerItems', value, attributes: { worker, item } }) as const),
      ...items.filter(([item]) => item === 'reaped').map(([, value]) => ({ of: 'reaped', value, attributes: {} }) as const),
    ]
  }
  // Already counted with worker-ran.
  if (event.type === 'differences-found') return []
  if (event.type === 'worker-failed') return [{ of: 'workerFailures', value: 1, attributes: { worker: event.worker } }]

  if ('job' in event) return measurementsOfJob(event)

  const scope = scopeName(event.scope)
  const count = (of: InstrumentName, attributes = {}): Measurement => ({ of, value: 1, attributes: { scope, ...attributes } })
  const ran = (outcome: string, { durationMs }: { readonly durationMs?: number }): Measurement[] =>
    durationMs === undefined ? [] : [{ of: 'runDuration', value: durationMs / 1000, attributes: { scope, outcome } }]
  const step = (
    kind: string,
    outcome: string,
    { name, durationMs }: { readonly name: string; readonly durationMs: number },
  ): Measurement[] => [{ of: 'phaseDuration', value: durationMs / 1000, attributes: { scope, step: name, kind, outcome } }]

  switch (event.type) {
    case 'executing':
      return [count('claims', { verdict: verdicts.executing }), ...(event.takenOver ? [count('takeovers', { by: event.by })] : [])]
    case 'replayed':
    case 'met-in-progress':
    case 'mismatched':
    case 'met-parked':
      return [count('claims', { verdict: verdicts[event.type] })]
    case 'phase-committed':
      return step('phase', 'done', event)
    case 'call-returned':
      return step('call', 'done', event)
    case 'call-refused':
      return step('call', 'refused', event)
    case 'call-failed':
      return step('call', 'failed', event)
    case 'finished':
      return ran('finished', event)
    case 'failed':
      return ran('failed', event)
    case 'released':
      return [count('released'), ...ran('released', event)]
    case 'parked':
      return [count('parked'), ...ran('parked', event)]
    case 'answer-not-stored':
      return [count('answersNotStored'), ...ran('not-stored', event)]
    case 'lease-lost':
      return [count('leasesLost')]
    case 'not-claimed':
      return [count('notClaimed')]
    case 'failed-open':
      return [count('failedOpen')]
    case 'resolved':
      return [count('resolved', { as: event.as })]
    case 'swept':
      return [count('swept', { to: event.to }), ...(event.to === 'parked' ? [count('parked')] : [])]
    case 'timed-out':
      return [count('timedOut')]
    case 'call-looked-up':
    case 'lease-in-doubt':
    case 'max-run-exceeded':
    case 'heartbeat-failed':
    case 'redaction-failed':
    case 'answer-omitted':
    case 'enqueued':
      return []
  }
}

function measurementsOfJob(event: JobEvent): Measurement[] {
  const { job, sink } = event
  const took = (outcome: string, durationMs: number): Measurement => {
    return { of: 'jobDuration', value: durationMs / 1000, attributes: { job, sink, outcome } }
  }
  switch (event.type) {
    case 'job-delivered':
      return [took('delivered', event.durationMs), { of: 'jobWait', value: event.waitedMs / 1000, attributes: { job, sink } }]
    case 'job-failed':
      return [took('failed', event.durationMs)]
    case 'job-dead':
      return [took('dead', event.durationMs)]
    case 'job-unsettled':
      return [{ of: 'jobsUnsettled', value: 1, attributes: { job, sink } }]
  }
}
