import { type Answer, type BodyOf, checkAnswer, type Reply } from '../core/answer.js'
import { crashPoint } from '../core/crash-points.js'
import type { Lease } from '../core/record.js'
import { ranForMs, whileCertain } from '../engine/held.js'
import type { Outcome } from '../engine/outcome.js'
import { patiently } from '../engine/patience.js'
import type { Ledger } from './ledger.js'
import { CommittedBefore, commitTogether } from './transaction.js'

/** The last phase: the user's writes, staged jobs and the answer in one commit. */
export async function finish<Tx, R extends Answer>(ledger: Ledger<Tx>, work: (tx: Tx) => Promise<R> | R): Promise<R> {
  return ledger.alone('finish', async () => {
    await ledger.parkIfStepsAreUnknown('its finish')
    const { parts, claim } = ledger.held
    const { span } = parts
    const answer = await (span ? span('oncekey.finish', {}, () => commitFinish(ledger, work)) : commitFinish(ledger, work))
    ledger.finish(answer)
    ledger.tellStaged()
    parts.report(claim, { type: 'finished', status: answer.status, durationMs: ranForMs(ledger.held), committed: true })
    return answer
  })
}

async function commitFinish<Tx, R extends Answer>(ledger: Ledger<Tx>, work: (tx: Tx) => Promise<R> | R): Promise<R> {
  const { lease, parts, policy, claim } = ledger.held
  // The answer that was written last: if a commit turns out to have happened, it is its. What is stored may be less of it.
  let whole: R | undefined
  return commitTogether<Tx, R>(parts, ledger.store, {
    name: 'finish',
    workMs: ledger.held.holding.leftMs(),
    run: (tx, part) =>
      ledger.stagingIn({ tx, part, work }, async (value, jobs) => {
        const finished = checkAnswer(value)
        crashPoint('finish:worked')
        // It may have been given up meanwhile, and the release may still be on its way.
        if (ledger.held.holding.isLost()) ledger.lose()
        const kept = parts.keep(claim, finished)
        const { retention } = policy
        ledger.held.holding.ending()
        const finish = { lease, state: 'complete', answer: kept, retention, steps: ledger.uncommitted, jobs } as const
        const written = await ledger.store.keyFinishWithin(finish, tx, { timeoutMs: parts.storeTimeoutMs })
        if (written === 'lost') ledger.lose()
        // The user's writes are in the store already, from a try whose acknowledgement was lost.
        if (written === 'repeated') throw new CommittedBefore()
        whole = finished
        return finished
      }),
    async committedBefore() {
      const record = await patiently((limit) => parts.store.keyRead(claim, limit, { request: false }), whileCertain(ledger.held), parts)
      const ours = record?.state === 'complete' && record.incarnation === lease.incarnation && record.fence === lease.fence
      return ours ? { value: whole ?? (record.answer as R) } : undefined
    },
  })
}

/** What `run.finish()` stored. */
export function finishedOutcome<R extends Answer>({ incarnation }: Lease, answer: Answer): Outcome<R> {
  return { kind: 'executed', answer: answer as Reply<BodyOf<R>>, incarnation, stored: true }
}
