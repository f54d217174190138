import { crashPoint } from '../core/crash-points.js'
import type { Json } from '../core/json.js'
import { whileCertain } from '../engine/held.js'
import { patiently } from '../engine/patience.js'
import type { Ledger } from './ledger.js'
import { fromResultJson, resultJson } from './result-json.js'
import { CommittedBefore, commitTogether } from './transaction.js'

/** Local writes, the phase's result, the recovery point and staged jobs, in one commit. Done once: later attempts get the result. */
export async function phase<Tx, T>(ledger: Ledger<Tx>, name: string, work: (tx: Tx) => Promise<T> | T): Promise<Json<T>> {
  return ledger.step(name, async (stored) => {
    if (stored) {
      if (stored.kind !== 'phase') await ledger.park(`'${name}' is a phase in the code, but was a call before`, 'step_unknown')
      return fromResultJson<T>(stored.result)
    }
    const { parts, claim } = ledger.held
    const { span, clock } = parts
    const startedAt = clock.monotonic()
    const text = await (span
      ? span(`oncekey.phase ${name}`, { 'oncekey.step': name }, () => commitPhase(ledger, name, work))
      : commitPhase(ledger, name, work))
    parts.report(claim, { type: 'phase-committed', name, durationMs: clock.monotonic() - startedAt })
    return fromResultJson<T>(text)
  })
}

async function commitPhase<Tx, T>(ledger: Ledger<Tx>, name: string, work: (tx: Tx) => Promise<T> | T): Promise<string | null> {
  const { lease, parts } = ledger.held
  const text = await commitTogether<Tx, string | null>(parts, ledger.store, {
    name: `phase ${name}`,
    workMs: ledger.held.holding.leftMs(),
    run: (tx, part) =>
      ledger.stagingIn({ tx, part, work }, async (value, jobs) => {
        const result = resultJson(name, value)
        crashPoint(`phase ${name}:worked`)
        const limit = { timeoutMs: parts.storeTimeoutMs }
        const steps = [...ledger.uncommitted, ledger.newStep(name, 'phase', result)]
        const written = await ledger.store.stepAdvance({ lease, from: ledger.recoveryPoint, to: name, steps, jobs }, tx, limit)
        if (written === 'lost') ledger.lose()
        if (written === 'repeated') throw new CommittedBefore()
        return result
      }),
    async committedBefore() {
      const { steps } = await patiently((limit) => ledger.store.stepsRead(lease, limit), whileCertain(ledger.held), parts)
      const step = steps.find((each) => each.name === name)
      return step && { value: step.result }
    },
  })
  ledger.committed(name)
  ledger.tellStaged()
  return text
}
