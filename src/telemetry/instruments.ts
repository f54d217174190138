/** The metrics, as data: docs/guide/operating.md lists the same. */
export interface InstrumentSpec {
  readonly name: string
  readonly kind: 'counter' | 'histogram' | 'gauge'
  readonly unit: string
  readonly description: string
  /** Never the tenant or the key: both grow without bound, and are private. */
  readonly attributes: readonly string[]
}

const counter = (name: string, unit: string, description: string, ...attributes: string[]) =>
  ({ name: `oncekey.${name}`, kind: 'counter', unit, description, attributes: attributes.map(named) }) as const

const seconds = (kind: 'histogram' | 'gauge', name: string, description: string, ...attributes: string[]) =>
  ({ name: `oncekey.${name}`, kind, unit: 's', description, attributes: attributes.map(named) }) as const

const named = (attribute: string) => `oncekey.${attribute}`

export const instruments = {
  claims: counter('claims', '{claim}', 'Claims of requests and workers, by verdict', 'scope', 'verdict'),
  takeovers: counter('takeovers', '{run}', 'Attempts after the first', 'scope', 'by'),
  runDuration: seconds('histogram', 'run.duration', 'How long runs took, by how they ended', 'scope', 'outcome'),
  phaseDuration: seconds('histogram', 'phase.duration', 'How long phases and calls took', 'scope', 'step', 'kind', 'outcome'),
  released: counter('released', '{key}', 'Keys released because their work threw', 'scope'),
  parked: counter('parked', '{key}', 'Keys parked by a run, a claim or a sweep', 'scope'),
  resolved: counter('resolved', '{key}', 'Parked keys that were resolved', 'scope', 'as'),
  leasesLost: counter('leases_lost', '{run}', 'Runs whose key was taken over', 'scope'),
  answersNotStored: counter('answers_not_stored', '{run}', 'Runs whose result could not be stored', 'scope'),
  notClaimed: counter('not_claimed', '{request}', 'Requests whose claim failed', 'scope'),
  failedOpen: counter('failed_open', '{request}', 'Requests that ran without protection, because their claim failed', 'scope'),
  swept: counter('swept', '{key}', 'Keys swept, by resulting state', 'scope', 'to'),
  timedOut: counter('timed_out', '{key}', 'Keys that no worker claimed in time', 'scope'),
  reaped: counter('reaped', '{key}', 'Expired keys that were deleted'),
  workerItems: counter('worker.items', '{item}', 'What background work did, by worker and count', 'worker', 'item'),
  workerFailures: counter('worker.failures', '{turn}', 'Runs of background work that failed', 'worker'),
  workerDuration: seconds('histogram', 'worker.duration', 'How long a run of background work took', 'worker'),
  jobDuration: seconds('histogram', 'job.duration', 'How long deliveries of jobs took, by how they ended', 'job', 'sink', 'outcome'),
  jobWait: seconds('histogram', 'job.wait', 'Time from when a job was due to its delivery', 'job', 'sink'),
  jobsUnsettled: counter('jobs_unsettled', '{job}', 'Jobs whose result could not be stored: they may be delivered again', 'job', 'sink'),
  outboxLag: seconds('gauge', 'outbox.lag', 'Age of the oldest undelivered job; 0 if there is none'),
} satisfies Record<string, InstrumentSpec>

export type InstrumentName = keyof typeof instruments

/** OpenTelemetry's boundaries for requests, extended to the default `maxRun`. */
export const bucketSeconds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 300, 900]
