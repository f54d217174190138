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
  claims: counter('claims', '{claim}', 'Requests that asked for a key, by what they were told', 'scope', 'verdict'),
  takeovers: counter('takeovers', '{run}', 'Runs of keys that an earlier attempt did not finish', 'scope', 'by'),
  runDuration: seconds('histogram', 'run.duration', 'How long runs took, by how they ended', 'scope', 'outcome'),
  phaseDuration: seconds('histogram', 'phase.duration', 'How long phases and calls took', 'scope', 'step', 'kind', 'outcome'),
  released: counter('released', '{key}', 'Keys that were given back because their work threw', 'scope'),
  parked: counter('parked', '{key}', 'Keys that were parked for a person, by a run, a claim or a sweep', 'scope'),
  resolved: counter('resolved', '{key}', 'Parked keys that a person resolved', 'scope', 'as'),
  leasesLost: counter('leases_lost', '{run}', 'Runs whose key went to another holder', 'scope'),
  answersNotStored: counter('answers_not_stored', '{run}', 'Runs that ended when the store could not be told', 'scope'),
  notClaimed: counter('not_claimed', '{request}', 'Requests whose key could not be asked for, because the store was away', 'scope'),
  failedOpen: counter('failed_open', '{request}', 'Requests that ran without protection, because the store was away', 'scope'),
  swept: counter('swept', '{key}', 'Keys of holders that were gone, by what the sweeper made of them', 'scope', 'to'),
  timedOut: counter('timed_out', '{key}', 'Keys that no worker took in time', 'scope'),
  reaped: counter('reaped', '{key}', 'Expired keys that were deleted'),
  workerItems: counter('worker.items', '{item}', 'What background work did, by worker and count', 'worker', 'item'),
  workerFailures: counter('worker.failures', '{turn}', 'Turns of background work that failed', 'worker'),
  workerDuration: seconds('histogram', 'worker.duration', 'How long a turn of background work took', 'worker'),
  jobDuration: seconds('histogram', 'job.duration', 'How long deliveries of jobs took, by how they ended', 'job', 'sink', 'outcome'),
  jobWait: seconds('histogram', 'job.wait', 'From when a job could have been delivered until it was', 'job', 'sink'),
  jobsUnsettled: counter('jobs_unsettled', '{job}', 'Jobs whose delivery could not be stored, and may be repeated', 'job', 'sink'),
  outboxLag: seconds('gauge', 'outbox.lag', 'Age of the oldest job that is not delivered; 0 if there is none'),
} satisfies Record<string, InstrumentSpec>

export type InstrumentName = keyof typeof instruments

/** OpenTelemetry's boundaries for requests, extended to the default `maxRun`. */
export const bucketSeconds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 300, 900]
