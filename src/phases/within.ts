import { type Answer, type BodyOf, checkAnswer, type Reply, reply } from '../core/answer.js'
import { isOncekeyError, OncekeyError, storeTimeout } from '../core/errors.js'
import type { Fingerprint, FingerprintRequest } from '../core/fingerprint/fingerprint.js'
import { checkKeyRef, type KeyRef } from '../core/key.js'
import { type PolicyOptions, resolvePolicy } from '../core/policy.js'
import type { KeyClaim, StepStore } from '../core/store.js'
import { thrownText } from '../core/thrown-text.js'
import { reportExecuting, runAttributes } from '../engine/held.js'
import { leaseLost } from '../engine/lease-keeper.js'
import { type Outcome, outcomeOf } from '../engine/outcome.js'
import type { EngineParts } from '../engine/parts.js'
import { lockedByAnother } from './local.js'
import { TransactionPart } from './transaction-part.js'

export interface WithinOptions extends KeyRef, Pick<PolicyOptions, 'retention' | 'retentionFloor'> {
  /** What the message asks for, if the same key with another one should be a mismatch. Default: nothing is compared. */
  fingerprint?: FingerprintRequest
}

/** `executed`: the work ran in your transaction, and counts as done when, and only if, you commit it. */
export type WithinOutcome<R extends Answer = Reply> =
  | { readonly kind: 'executed'; readonly answer: Reply<BodyOf<R>>; readonly incarnation: string }
  | Exclude<Outcome<R>, { kind: 'executed' }>

/**
 * Work that is done once, in a transaction that the user has already: the consumer's inbox. A savepoint makes key and work one: if
 * the work throws, both are undone, also when the error is caught and the rest is committed.
 */
export async function within<Tx, R extends Answer>(
  parts: EngineParts,
  store: StepStore<Tx>,
  tx: Tx,
  options: WithinOptions,
  // biome-ignore lint/suspicious/noConfusingVoidType: a consumer's work often returns nothing.
  work: () => Promise<R | void> | R | void,
): Promise<WithinOutcome<R>> {
  const claiming = inboxClaim(parts, options)
  const { tenant, scope, key } = options
  const ref = { tenant, scope, key }
  const { clock, report, span } = parts
  const limit = { timeoutMs: parts.storeTimeoutMs }
  // Before anything is waited for: the transaction must not end meanwhile.
  const part = TransactionPart.nested(tx, key)
  try {
    const claim = 'then' in claiming ? await claiming : claiming
    const transactionId = await inTime(parts, store.transactionId(tx))
    if (transactionId !== undefined) part.identify(transactionId)
    return await inSavepoint(claim)
  } finally {
    part.end()
  }

  async function inSavepoint(claim: KeyClaim): Promise<WithinOutcome<R>> {
    const savepoint = await inTime(parts, store.savepoint(tx))
    let startedAt: number | undefined
    try {
      const verdict = await store.keyClaimWithin(claim, tx, limit)
      if (verdict.kind !== 'execute') {
        await inTime(parts, savepoint.keep())
        return outcomeOf<R>(parts, ref, verdict) as WithinOutcome<R>
      }
      reportExecuting(parts, claim, verdict)
      startedAt = clock.monotonic()
      const worked = span ? span('oncekey.run', runAttributes(claim, verdict), () => part.work(work)) : part.work(work)
      const answer = checkAnswer((await worked) ?? (reply(204) as unknown as R))
      const { lease } = verdict
      const finish = { lease, state: 'complete', answer: parts.keep(ref, answer), retention: claim.retention } as const
      if ((await store.keyFinishWithin(finish, tx, limit)) !== 'done') throw leaseLost()
      part.assertAlone()
      await inTime(parts, savepoint.keep())
      // Too late to undo this part alone: the undo fails, and with it the whole transaction.
      part.assertAlone()
      report(ref, { type: 'finished', status: answer.status, durationMs: clock.monotonic() - startedAt, committed: false })
      return { kind: 'executed', answer: answer as Reply<BodyOf<R>>, incarnation: lease.incarnation }
    } catch (error) {
      part.undone()
      await inTime(parts, savepoint.undo()).catch((undoError: unknown) => {
        // Else the connection is gone, and with it the transaction.
        if (store.failureOf(undoError) === 'refused') throw notUndone(key, error, undoError)
      })
      if (startedAt === undefined && isOncekeyError(error, 'key_locked'))
        return outcomeOf<R>(parts, ref, lockedByAnother) as WithinOutcome<R>
      if (startedAt !== undefined) report(ref, { type: 'released', error, durationMs: clock.monotonic() - startedAt })
      throw error
    }
  }
}

/** The connection is the user's: one that went silent is not ours to destroy, but no caller need wait for it. */
function inTime<T>({ clock, storeTimeoutMs }: EngineParts, statement: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.schedule(() => reject(storeTimeout()), storeTimeoutMs)
    statement.finally(cancel).then(resolve, reject)
  })
}

/** Postgres commits no transaction after this, but an ORM that undoes a savepoint around it may. */
const notUndone = (key: string, error: unknown, cause: unknown) =>
  new OncekeyError(
    'steps_overlap',
    `'${key}' failed (${thrownText(error)}) and could not be undone alone (${thrownText(cause)}): roll back the whole transaction. ` +
      'Do not run nested transactions side by side.',
    { cause },
  )

/**
 * The claim on a message, at once unless it is so large that its fingerprint takes several turns of the event loop. Nothing of the message
 * is kept for workers: what is not committed has not happened, and the message comes again.
 */
export function inboxClaim(parts: EngineParts, options: WithinOptions): KeyClaim | Promise<KeyClaim> {
  const { leaseMs, retention } = resolvePolicy(options, parts.defaults)
  const { tenant, scope, key } = checkKeyRef(options)
  const claimWith = (fingerprint: Fingerprint | null): KeyClaim => ({
    tenant,
    scope,
    key,
    owner: parts.random.uuid(),
    fingerprint,
    leaseMs,
    retention,
    afterFailure: 'rerun',
    request: null,
    worker: false,
  })
  const fingerprint = options.fingerprint ? parts.takeFingerprint.inTurns(options.fingerprint) : null
  return fingerprint && 'then' in fingerprint ? fingerprint.then(claimWith) : claimWith(fingerprint)
}
