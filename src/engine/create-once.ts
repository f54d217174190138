import type { Answer } from '../core/answer.js'
import { type Clock, type Random, systemClock, systemRandom } from '../core/clock.js'
import { type Duration, durationMs } from '../core/duration.js'
import { OncekeyError } from '../core/errors.js'
import { createFingerprinter, type Fingerprint, type FingerprintOptions, type FingerprintRequest } from '../core/fingerprint/fingerprint.js'
import { type PolicyOptions, resolvePolicy } from '../core/policy.js'
import type { Store } from '../core/store.js'
import { type OnceEvent, type Report, reporter } from './events.js'
import { type ExecuteOptions, execute, type Outcome, type Run } from './execute.js'
import { LeaseKeeper } from './lease-keeper.js'

/** Options for everything; lease, maxRun, retention and retentionFloor are the defaults for each piece of work. */
export interface OnceOptions<Tx = never> extends PolicyOptions {
  store: Store<Tx>
  /** How requests are compared. Default: plain SHA-256 over everything. */
  fingerprint?: FingerprintOptions
  /**
   * Answers with a larger body are not kept: the work stays done, and a replay says that its answer is gone.
   * Too low: replays without a body. Too high: a table full of bodies. Default 1 MiB.
   */
  maxAnswerBytes?: number
  /**
   * How long a request waits for the store before it gives up without having run.
   * Too low: a busy database turns requests away. Too high: they pile up while it is down. Default 5 s.
   */
  storeTimeout?: Duration
  /** Told of everything that happens to a key in this process. What it throws is ignored. */
  onEvent?: (event: OnceEvent) => void
  /** For tests. */
  clock?: Clock
  /** For tests. */
  random?: Random
}

export interface Once {
  /**
   * Does the work of a key once: the first caller runs it, later ones get its answer, and those that come meanwhile are told
   * to wait. An error that the work throws comes out of here as it is.
   */
  execute<R extends Answer>(options: ExecuteOptions, work: (run: Run) => Promise<R> | R): Promise<Outcome<R>>
}

/** What the parts of the engine share. */
export interface EngineParts {
  readonly store: Omit<Store, 'transaction'>
  readonly clock: Clock
  readonly random: Random
  readonly report: Report
  readonly leaseKeeper: LeaseKeeper
  readonly defaults: PolicyOptions
  readonly maxAnswerBytes: number
  readonly storeTimeoutMs: number
  takeFingerprint(request: FingerprintRequest): Fingerprint
}

/** A Postgres value holds 1 GB at most, and a driver sends bytes as twice as many characters. */
const largestCapBytes = 256 * 1024 * 1024

export function createOnce<Tx>(options: OnceOptions<Tx>): Once {
  const { store, clock = systemClock, random = systemRandom, maxAnswerBytes = 1024 * 1024, storeTimeout = '5s' } = options
  if (typeof store?.keyClaim !== 'function') {
    throw new OncekeyError(
      'option_invalid',
      'createOnce needs a store: postgresStore(…) of oncekey/postgres, or memoryStore() of oncekey/memory.',
    )
  }
  if (!Number.isInteger(maxAnswerBytes) || maxAnswerBytes < 0 || maxAnswerBytes > largestCapBytes) {
    throw new OncekeyError(
      'option_invalid',
      `maxAnswerBytes is ${String(maxAnswerBytes)}: it is a whole number from 0 to ${largestCapBytes}.`,
    )
  }
  // Checked here, so that a wrong default is an error at start and not at the first request.
  resolvePolicy(options)
  const report = reporter(options.onEvent)
  const parts: EngineParts = {
    store,
    clock,
    random,
    report,
    leaseKeeper: new LeaseKeeper({ store, clock, random, report }),
    defaults: options,
    maxAnswerBytes,
    storeTimeoutMs: durationMs(storeTimeout, 'storeTimeout'),
    takeFingerprint: createFingerprinter(options.fingerprint),
  }

  return {
    execute: (executeOptions, work) => execute(parts, executeOptions, work),
  }
}
