import { type Answer, type BodyOf, checkAnswer, type Reply, reply } from '../core/answer.js'
import type { FingerprintRequest } from '../core/fingerprint/fingerprint.js'
import { checkKeyRef, type KeyRef } from '../core/key.js'
import { type PolicyOptions, resolvePolicy } from '../core/policy.js'
import type { KeyClaim, StepStore } from '../core/store.js'
import { reportExecuting, runAttributes } from '../engine/held.js'
import { leaseLost } from '../engine/lease-keeper.js'
import { type Outcome, outcomeOf } from '../engine/outcome.js'
import type { EngineParts } from '../engine/parts.js'

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
  const claim = inboxClaim(parts, options)
  const { tenant, scope, key, retention } = claim
  const ref = { tenant, scope, key }
  const { clock, report, span } = parts
  const savepoint = await store.savepoint(tx)
  let startedAt: number | undefined
  try {
    const verdict = await store.keyClaimWithin(claim, tx)
    if (verdict.kind !== 'execute') {
      await savepoint.keep()
      return outcomeOf<R>(parts, ref, verdict) as WithinOutcome<R>
    }
    reportExecuting(parts, claim, verdict)
    startedAt = clock.monotonic()
    const worked = span ? span('oncekey.run', runAttributes(claim, verdict), async () => work()) : work()
    const answer = checkAnswer((await worked) ?? (reply(204) as unknown as R))
    const { lease } = verdict
    const finish = { lease, state: 'complete', answer: parts.keep(ref, answer), retention } as const
    if ((await store.keyFinishWithin(finish, tx)) !== 'done') throw leaseLost()
    await savepoint.keep()
    report(ref, { type: 'finished', status: answer.status, durationMs: clock.monotonic() - startedAt, committed: false })
    return { kind: 'executed', answer: answer as Reply<BodyOf<R>>, incarnation: lease.incarnation }
  } catch (error) {
    // If even that fails the connection is gone, and with it the whole transaction.
    await savepoint.undo().catch(() => {})
    if (startedAt !== undefined) report(ref, { type: 'released', error, durationMs: clock.monotonic() - startedAt })
    throw error
  }
}

/** The claim on a message. Nothing of it is kept for workers: what is not committed has not happened, and the message comes again. */
export function inboxClaim(parts: EngineParts, options: WithinOptions): KeyClaim {
  const { leaseMs, retention } = resolvePolicy(options, parts.defaults)
  const { tenant, scope, key } = checkKeyRef(options)
  return {
    tenant,
    scope,
    key,
    owner: parts.random.uuid(),
    fingerprint: options.fingerprint ? parts.takeFingerprint(options.fingerprint) : null,
    leaseMs,
    retention,
    afterFailure: 'rerun',
    request: null,
    worker: false,
  }
}
