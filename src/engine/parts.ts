import type { Answer } from '../core/answer.js'
import type { Clock, Random } from '../core/clock.js'
import type { Fingerprinter } from '../core/fingerprint/fingerprint.js'
import type { KeyRef } from '../core/key.js'
import type { Policy, PolicyOptions } from '../core/policy.js'
import type { KeyStore, Store } from '../core/store.js'
import type { AnswerCache } from './answer-cache.js'
import type { Report, ReportWorker } from './events.js'
import type { LeaseKeeper } from './lease-keeper.js'
import type { RunningWork } from './running-work.js'
import type { Span } from './telemetry.js'
import type { Withdrawals } from './withdrawals.js'

/** What the parts of the engine share. */
export interface EngineParts {
  readonly store: KeyStore & Pick<Store, 'upkeep' | 'outbox' | 'turns'>
  readonly clock: Clock
  readonly random: Random
  readonly report: Report
  readonly reportWorker: ReportWorker
  /** Undefined without telemetry: then nothing is wrapped. */
  readonly span: Span | undefined
  readonly leaseKeeper: LeaseKeeper
  readonly running: RunningWork
  /** Failed claims that the store may have executed. */
  readonly withdrawals: Withdrawals
  /** Undefined unless configured. */
  readonly answers: AnswerCache | undefined
  readonly defaults: PolicyOptions
  /** The request's own policy, with defaults. */
  policyOf(options: PolicyOptions): Policy
  readonly storeTimeoutMs: number
  /** Called for each key that this process enqueues. */
  readonly onEnqueued: ReadonlySet<(ref: KeyRef) => void>
  /** Called whenever this process has committed jobs. */
  readonly onStaged: ReadonlySet<() => void>
  /** The answer as it is stored. Never throws. */
  keep(ref: KeyRef, answer: Answer): Answer
  readonly takeFingerprint: Fingerprinter
}
