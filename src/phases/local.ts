import { type Answer, type BodyOf, checkAnswer, type Reply } from '../core/answer.js'
import { crashPoint, isSimulatedCrash } from '../core/crash-points.js'
import { isOncekeyError, isStoreTrouble } from '../core/errors.js'
import { keyId } from '../core/key.js'
import type { Lease } from '../core/record.js'
import type { KeyClaim, StepStore } from '../core/store.js'
import { reportExecuting, runAttributes } from '../engine/held.js'
import { leaseLost } from '../engine/lease-keeper.js'
import { type Outcome, outcomeOf } from '../engine/outcome.js'
import type { EngineParts } from '../engine/parts.js'
import { patiently } from '../engine/patience.js'
import { admission, type LocalOptions, type OperationOutcome, type RunRequest } from './admission.js'
import type { InputOf, OutputOf, StandardSchema } from './input.js'
import { KeyTurns } from './key-turns.js'
import { commitTogether, type Together } from './transaction.js'

/** A named piece of purely local work. */
export interface LocalOperation<Input, R extends Answer> {
  readonly name: string
  /** Whether it makes a key from the input for callers that bring none. */
  readonly makesKey: boolean
  run(request: RunRequest<Input>): Promise<OperationOutcome<R>>
}

export function defineLocal<Tx, Schema extends StandardSchema | undefined, R extends Answer>(
  parts: EngineParts,
  store: StepStore<Tx>,
  name: string,
  options: LocalOptions<Schema>,
  work: (tx: Tx, input: OutputOf<Schema>) => Promise<R> | R,
): LocalOperation<InputOf<Schema>, R> {
  const { admit, policy } = admission(parts, name, options)
  return {
    name,
    makesKey: options.key !== undefined,
    async run(request) {
      const admitted = await admit<R>(request)
      if ('outcome' in admitted) return admitted.outcome
      // It is never resumed, so the request need not be kept.
      const claim = { ...admitted.claim, request: null }
      return runLocal(parts, store, { claim, maxRunMs: policy.maxRunMs }, (tx) => work(tx, admitted.input))
    },
  }
}

/**
 * How long a try waits in the database for a transaction of another process that has the key, and how long it then rests without a connection. Else
 * retries of a few keys would have all connections of the pool for as long as those transactions are open.
 */
const lockMs = 25
const firstRestMs = 10
const longestRestMs = 250

/** A try that begins shortly before the limit is not cut off: that would cost its connection. */
const lastTryMs = 500

const turnsOf = new WeakMap<EngineParts, KeyTurns>()

/**
 * Purely local work: claim, work and answer are one transaction and one commit, so there is no window. Duplicates wait until it ends, and then
 * replay; after `storeTimeout` they are in progress. If it fails, nothing is left, not even the key.
 */
export async function runLocal<Tx, R extends Answer>(
  parts: EngineParts,
  store: StepStore<Tx>,
  { claim, maxRunMs }: { readonly claim: KeyClaim; readonly maxRunMs: number },
  work: (tx: Tx) => Promise<R> | R,
): Promise<Outcome<R>> {
  parts.running.assertOpen()
  const { clock, report, span } = parts
  const limit = { timeoutMs: parts.storeTimeoutMs }
  // One limit for the wait for a connection and the wait for another holder's transaction.
  const claimUntil = clock.monotonic() + parts.storeTimeoutMs
  const claimLimit = () => {
    const timeoutMs = Math.max(lastTryMs, claimUntil - clock.monotonic())
    return startedAt === undefined ? { timeoutMs: Math.min(limit.timeoutMs, timeoutMs), lockMs } : limit
  }
  // The answer that was written last: if a commit turns out to have happened, it is its. What is stored may be less of it.
  let whole: R | undefined
  let startedAt: number | undefined
  let wroteNothing = false
  const together: Together<Tx, Outcome<R>> = {
    name: 'local',
    // The claim may wait for up to storeTimeout.
    workMs: maxRunMs + limit.timeoutMs,
    async run(tx, part) {
      const verdict = await store.keyClaimWithin(claim, tx, claimLimit())
      if (verdict.kind !== 'execute') {
        wroteNothing = !('settled' in verdict && verdict.settled)
        return outcomeOf<R>(parts, claim, verdict)
      }
      // A transaction that has to be repeated is the same run.
      if (startedAt === undefined) reportExecuting(parts, claim, verdict)
      startedAt ??= clock.monotonic()
      crashPoint('local:claimed')
      const make = () => part.work(() => work(tx))
      const worked = span ? span('oncekey.run', runAttributes(claim, verdict), make) : make()
      const answer = checkAnswer(await worked)
      crashPoint('local:worked')
      const { lease } = verdict
      const kept = parts.keep(claim, answer)
      const result = await store.keyFinishWithin({ lease, state: 'complete', answer: kept, retention: claim.retention }, tx, limit)
      if (result !== 'done') throw leaseLost()
      whole = answer
      return executed<R>(answer, lease)
    },
    wroteNothing: () => wroteNothing,
    /** The claim's token says whether the row is its own. */
    async committedBefore() {
      const patience = { until: parts.clock.monotonic() + parts.storeTimeoutMs, tries: Number.POSITIVE_INFINITY }
      const record = await patiently((limit) => parts.store.keyRead(claim, limit, { request: false }), patience, parts)
      const ours = record?.owner === claim.owner && record.state === 'complete'
      return ours ? { value: executed<R>(whole ?? (record.answer as Answer), record) } : undefined
    },
  }
  const durationMs = () => clock.monotonic() - (startedAt ?? clock.monotonic())
  // There is nothing to give back: what is not committed has not happened.
  const underway = { abandon: async () => {} }
  parts.running.begin(underway)
  const id = keyId(claim)
  const turns = turnsOf.get(parts) ?? new KeyTurns(clock)
  turnsOf.set(parts, turns)
  let hasTurn = false
  try {
    hasTurn = await turns.take(id, limit.timeoutMs)
    if (!hasTurn) return outcomeOf<R>(parts, claim, lockedByAnother)
    parts.running.assertOpen()
    const outcome = await whenUnlocked()
    if (outcome.kind === 'executed') {
      report(claim, { type: 'finished', status: outcome.answer.status, durationMs: durationMs(), committed: true })
    }
    return outcome
  } catch (error) {
    if (startedAt === undefined && isOncekeyError(error, 'key_locked')) return outcomeOf<R>(parts, claim, lockedByAnother)
    // Rolled back; or, if the store is away, perhaps committed: a retry finds out.
    const type = isStoreTrouble(error) && !isOncekeyError(error, 'store_conflict') ? 'answer-not-stored' : 'released'
    if (startedAt === undefined && isStoreTrouble(error)) report(claim, { type: 'not-claimed', error })
    if (startedAt !== undefined && !isSimulatedCrash(error)) report(claim, { type, error, durationMs: durationMs() })
    throw error
  } finally {
    if (hasTurn) turns.end(id)
    parts.running.end(underway)
  }

  async function whenUnlocked(): Promise<Outcome<R>> {
    for (let restMs = firstRestMs; ; restMs = Math.min(longestRestMs, 2 * restMs)) {
      try {
        return await commitTogether(parts, store, together)
      } catch (error) {
        const isLocked = startedAt === undefined && isOncekeyError(error, 'key_locked')
        if (!isLocked || clock.monotonic() + restMs >= claimUntil) throw error
      }
      parts.running.assertOpen()
      await new Promise<void>((resolve) => void clock.schedule(resolve, restMs))
    }
  }
}

/** Another transaction has the key; when it ends is unknown. */
export const lockedByAnother = { kind: 'in-progress', retryAfterMs: 1_000 } as const

function executed<R extends Answer>(answer: Answer, { incarnation }: Pick<Lease, 'incarnation'>): Outcome<R> {
  return { kind: 'executed', answer: answer as Reply<BodyOf<R>>, incarnation, stored: true }
}
