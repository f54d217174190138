import type { Answer, Reply } from './core/answer.js'
import { type Clock, type Random, systemClock, systemRandom } from './core/clock.js'
import { type Duration, durationMs } from './core/duration.js'
import { OncekeyError } from './core/errors.js'
import { createFingerprinter, type FingerprintOptions } from './core/fingerprint/fingerprint.js'
import { answerKeeper } from './core/kept-answer.js'
import type { KeyRef } from './core/key.js'
import type { EncryptionOptions } from './core/key-ring.js'
import { type PolicyOptions, policyResolver, resolvePolicy } from './core/policy.js'
import { sealedStore } from './core/sealed-store.js'
import type { AuditEntry, Store } from './core/store.js'
import { AnswerCache } from './engine/answer-cache.js'
import { boundedStore } from './engine/bounded-store.js'
import { type Logger, logTo } from './engine/event-log.js'
import { type OnceEvent, reporter } from './engine/events.js'
import { type ExecuteOptions, execute } from './engine/execute.js'
import { LeaseKeeper } from './engine/lease-keeper.js'
import { omittedAnswers } from './engine/omitted-answers.js'
import type { Outcome } from './engine/outcome.js'
import type { EngineParts } from './engine/parts.js'
import { RunningWork } from './engine/running-work.js'
import { checkTelemetry, guardedApart, guardedSpan, type Telemetry } from './engine/telemetry.js'
import { Withdrawals } from './engine/withdrawals.js'
import type { LocalOptions } from './phases/admission.js'
import { type Consumer, type ConsumerOptions, type ConsumerWork, defineConsumer, type Message } from './phases/consumer.js'
import type { InputOf, OutputOf, StandardSchema } from './phases/input.js'
import { defineLocal, type LocalOperation } from './phases/local.js'
import { openAttempt } from './phases/open-attempt.js'
import { defineOperation, type Operation, type OperationOptions } from './phases/operation.js'
import type { OperationRun } from './phases/operation-run.js'
import { type ResolveAs, resolve } from './phases/resolve.js'
import { type BodyOptions, runBody } from './phases/run-body.js'
import { type WithinOptions, type WithinOutcome, within } from './phases/within.js'

/** Options for everything; lease, maxRun, retention and retentionFloor are the defaults for each piece of work. */
export interface OnceOptions<Tx = never> extends PolicyOptions {
  store: Store<Tx>
  /** How requests are compared. Default: plain SHA-256 over everything. */
  fingerprint?: FingerprintOptions
  /**
   * Answers with a larger body are not kept: the work stays done, and a replay says that its answer is gone.
   * Too low: replays without a body. Too high: a table full of bodies. Default 8 MiB.
   */
  maxAnswerBytes?: number
  /**
   * Names of headers that are stored with no answer, besides those that are never replayed: hop-by-hop ones, `Set-Cookie`, `Date` and
   * the like. Default none.
   */
  neverStore?: readonly string[]
  /**
   * Takes secrets out of an answer before it is stored. The first caller gets the whole answer, every replay what this returns. If it
   * throws, only the status is kept. Default: nothing is taken out.
   */
  redact?: (answer: Answer) => Answer
  /** Encrypts answers, requests and payloads of jobs at rest. Default: they are stored as they are. */
  encryption?: EncryptionOptions
  /**
   * Keeps answers that were replayed in memory, up to `maxBytes` of them, so that further retries need no database. None is told past
   * its retention. A key that was deleted manually is replayed until then. Default: none, each replay is read from the store.
   */
  answerCache?: { maxBytes: number }
  /**
   * How long a request waits for the store before it gives up without having run.
   * Too low: a busy database turns requests away. Too high: they pile up while it is down. Default 5 s.
   */
  storeTimeout?: Duration
  /**
   * Told of everything that happens to a key in this process, and of what background work does. What it throws becomes a warning, and
   * changes nothing.
   */
  onEvent?: (event: OnceEvent) => unknown
  /** Gets each event as a line at its level: pino as it is, or `console`. Default: nothing is logged. */
  logger?: Logger
  /** Metrics and spans: `telemetry()` of oncekey/opentelemetry. Default: none. */
  telemetry?: Telemetry
  /** For tests. */
  clock?: Clock
  /** For tests. */
  random?: Random
}

/** What background work and adapters need of an instance. Not for applications: it may change in any release. */
export interface OnceInternals<Tx> {
  readonly parts: EngineParts
  /** The operations that were defined here, by name: what a worker can carry out. */
  readonly operations: ReadonlyMap<string, Operation<never, Answer>>
  /** Told of each key that was left to workers by this process, so that one of them may start at once. */
  readonly onEnqueued: Set<(ref: KeyRef) => void>
  /** Told whenever this process has committed jobs, so that a relay may take them at once. */
  readonly onStaged: Set<() => void>
  /** `execute` in two steps, for work that its caller cannot pass as a function. */
  open(options: ExecuteOptions): ReturnType<typeof openAttempt<Tx>>
}

export interface Once<Tx = never> {
  /** @internal */
  readonly internals: OnceInternals<Tx>
  /** The cap on the body of an answer that is kept. */
  readonly maxAnswerBytes: number

  /**
   * Does the work of a key once: the first caller runs it, later ones get its answer, and those that come meanwhile are told
   * to wait. An error that the work throws comes out of here as it is. Work that uses steps of its run goes on after those that were
   * committed when it runs again.
   */
  execute<R extends Answer>(options: ExecuteOptions, work: (run: OperationRun<Tx>) => Promise<R> | R): Promise<Outcome<R>>

  /**
   * A request that touches the outside world, as a resumable state machine: local writes in phases, foreign mutations in calls. A
   * crashed attempt is taken up after its last commit.
   */
  operation<R extends Answer, Schema extends StandardSchema | undefined = undefined>(
    name: string,
    options: OperationOptions<Schema>,
    body: (run: OperationRun<Tx>, input: OutputOf<Schema>) => Promise<R> | R,
  ): Operation<InputOf<Schema>, R>

  /** Purely local work: key, work and answer in one transaction and one commit. */
  local<R extends Answer, Schema extends StandardSchema | undefined = undefined>(
    name: string,
    options: LocalOptions<Schema>,
    work: (tx: Tx, input: OutputOf<Schema>) => Promise<R> | R,
  ): LocalOperation<InputOf<Schema>, R>

  /**
   * The work of a message, done once in one transaction, however often and wherever it is delivered: for consumers of queues, and for
   * receivers of webhooks.
   */
  consumer<M extends Message = Message, R extends Answer = Reply<undefined>>(
    name: string,
    options: ConsumerOptions<M>,
    work: ConsumerWork<Tx, M, R>,
  ): Consumer<Tx, M, R>

  /** Work that is done once, in a transaction that you have already. */
  within<R extends Answer>(
    tx: Tx,
    options: WithinOptions,
    // biome-ignore lint/suspicious/noConfusingVoidType: a consumer's work often returns nothing.
    work: () => Promise<R | void> | R | void,
  ): Promise<WithinOutcome<R>>

  /** A person's word on a parked key: compare-and-set, and noted in the trail. */
  resolve(ref: KeyRef, word: ResolveAs): Promise<void>

  /**
   * For a process that is about to end: takes no new work (`shutting_down`, 503 over HTTP), lets what is under way finish, and after
   * `within` gives the rest back at its recovery points, so that others take it up at once. Default 10 s.
   */
  stop(options?: { within?: Duration }): Promise<{ readonly abandoned: number }>

  /** What happened to a key, oldest first. Needs a store that keeps a trail (`audit: true`); resolutions are noted in any case. */
  history(ref: KeyRef): Promise<AuditEntry[]>
}

/** For claims to be withdrawn when the process ends, also if its work took all of `within`. */
const leastWithdrawMs = 1_000

/** A Postgres value holds 1 GB at most, and a driver sends bytes as twice as many characters. */
const largestCapBytes = 256 * 1024 * 1024

export function createOnce<Tx = never>(options: OnceOptions<Tx>): Once<Tx> {
  const { clock = systemClock, random = systemRandom, maxAnswerBytes = 8 * 1024 * 1024, storeTimeout = '5s' } = options
  if (typeof options.store?.keyClaim !== 'function') {
    throw new OncekeyError(
      'option_invalid',
      'createOnce needs a store: postgresStore(…) of oncekey/postgres, redisStore(…) of oncekey/redis, or memoryStore() of oncekey/memory.',
    )
  }
  if (!Number.isInteger(maxAnswerBytes) || maxAnswerBytes < 0 || maxAnswerBytes > largestCapBytes) {
    throw new OncekeyError(
      'option_invalid',
      `maxAnswerBytes is ${String(maxAnswerBytes)}: it is a whole number from 0 to ${largestCapBytes}.`,
    )
  }
  const { answerCache } = options
  if (answerCache !== undefined && (!Number.isInteger(answerCache.maxBytes) || answerCache.maxBytes < 1)) {
    throw new OncekeyError('option_invalid', `answerCache.maxBytes is ${String(answerCache.maxBytes)}: it is a whole number from 1 on.`)
  }
  // Checked here, so that a wrong default is an error at start and not at the first request.
  resolvePolicy(options)
  const { logger, telemetry } = options
  if (telemetry) checkTelemetry(telemetry)
  const { report, reportWorker } = reporter({
    onEvent: options.onEvent,
    logger: logger && logTo(logger),
    telemetry: telemetry && ((event) => telemetry.onEvent(event)),
  })
  const keepAnswer = answerKeeper({ maxAnswerBytes, neverStore: options.neverStore, redact: options.redact })
  const omitted = omittedAnswers(report, maxAnswerBytes, logger !== undefined)
  // Always: what was sealed once is opened or refused, and never sent to a client as it is.
  const store = sealedStore(boundedStore(options.store, clock), options.encryption)
  const withdrawals = new Withdrawals(store, clock)
  const onEnqueued = new Set<(ref: KeyRef) => void>()
  const onStaged = new Set<() => void>()
  const parts: EngineParts = {
    store,
    clock,
    random,
    report,
    reportWorker,
    span: telemetry && guardedSpan(telemetry),
    leaseKeeper: new LeaseKeeper({ store, clock, random, report, apart: telemetry && guardedApart(telemetry) }),
    running: new RunningWork(clock),
    withdrawals,
    answers: answerCache === undefined ? undefined : new AnswerCache(clock, answerCache.maxBytes),
    defaults: options,
    policyOf: policyResolver(options),
    storeTimeoutMs: durationMs(storeTimeout, 'storeTimeout'),
    onEnqueued,
    onStaged,
    keep(ref, answer) {
      const kept = options.redact ? keepAnswer(answer, (error) => report(ref, { type: 'redaction-failed', error })) : keepAnswer(answer)
      if (kept.omittedBytes !== undefined && kept.omittedBytes > maxAnswerBytes) omitted(ref, kept.omittedBytes)
      return kept
    },
    takeFingerprint: createFingerprinter(options.fingerprint),
  }

  const steps = () => {
    if (store.steps) return store.steps
    const forgetful = store.durability === 'best-effort' ? ' and may forget what was done,' : ''
    throw new OncekeyError(
      'steps_unsupported',
      `This store cannot share a transaction with your data,${forgetful} so it has no operations, steps, local work or inbox: ` +
        'use postgresStore() for those.',
    )
  }
  const asItsClaimSays: BodyOptions<Tx> = { steps, afterFailure: (_, { claim }) => claim.afterFailure }
  const names = new Set<string>()
  const operations = new Map<string, Operation<never, Answer>>()
  const register = (name: string, work: unknown) => {
    if (typeof work !== 'function') {
      throw new OncekeyError('option_invalid', `'${name}' has nothing to do: pass its name, its options, be it {}, and a function.`)
    }
    if (names.has(name)) throw new OncekeyError('operation_name_taken', `There is an operation '${name}' already: give each its own name.`)
    names.add(name)
  }

  return {
    internals: {
      parts,
      operations,
      onEnqueued,
      onStaged,
      open: (executeOptions) => openAttempt(parts, executeOptions, asItsClaimSays),
    },
    maxAnswerBytes,
    execute: (executeOptions, work) => execute(parts, executeOptions, (held) => runBody(held, asItsClaimSays, ({ run }) => work(run))),
    operation(name, operationOptions, body) {
      const operation = defineOperation(parts, steps(), name, operationOptions, body)
      register(name, body)
      operations.set(name, operation)
      return operation
    },
    local(name, localOptions, work) {
      const operation = defineLocal(parts, steps(), name, localOptions, work)
      register(name, work)
      return operation
    },
    consumer(name, consumerOptions, work) {
      const consumer = defineConsumer(parts, steps(), name, consumerOptions, work)
      register(name, work)
      return consumer
    },
    within: async (tx, withinOptions, work) => within(parts, steps(), tx, withinOptions, work),
    resolve: async (ref, word) => resolve(parts, steps(), ref, word),
    async stop({ within = '10s' } = {}) {
      const withinMs = durationMs(within, 'within')
      const startedAt = clock.monotonic()
      const stopped = await parts.running.stop(withinMs)
      await withdrawals.stop(Math.max(leastWithdrawMs, withinMs - (clock.monotonic() - startedAt)))
      return stopped
    },
    history: async (ref) => steps().auditRead(ref),
  }
}
