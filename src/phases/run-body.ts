import { type Answer, checkAnswer } from '../core/answer.js'
import { isSimulatedCrash } from '../core/crash-points.js'
import { OncekeyError } from '../core/errors.js'
import type { AfterFailure } from '../core/policy.js'
import type { StepStore } from '../core/store.js'
import { outcomeUnknown } from '../core/system-answers.js'
import { type Held, settleFailure, storeAnswer, whileCertain } from '../engine/held.js'
import type { Outcome } from '../engine/outcome.js'
import { patiently } from '../engine/patience.js'
import { finishedOutcome } from './finish.js'
import { Ledger } from './ledger.js'
import { type OperationRun, operationRun } from './operation-run.js'

export interface BodyOptions<Tx> {
  /** What steps are made with. Throws for a store that has none, which matters only to a body that uses one. */
  steps(): StepStore<Tx>
  /** What becomes of the key when the body throws this. */
  afterFailure(error: unknown): AfterFailure
}

type Ended<R> = { readonly answer: R } | { readonly error: unknown }

/**
 * Runs a body on a key that is held, and stores what it comes to. The ledger is opened at the first step: a body without steps costs
 * the store nothing for them.
 */
export async function runBody<Tx, R extends Answer>(
  held: Held,
  { steps, afterFailure }: BodyOptions<Tx>,
  body: (run: OperationRun<Tx>) => Promise<R> | R,
): Promise<Outcome<R>> {
  let opening: Promise<Ledger<Tx>> | undefined
  let over = false
  const open = () => {
    if (over) throw new OncekeyError('steps_overlap', 'The run is over: no step may follow the end of its body. Await every step.')
    opening ??= openLedger(held, steps())
    return opening
  }
  let ended: Ended<R>
  try {
    ended = { answer: checkAnswer(await body(operationRun(held, open))) }
  } catch (error) {
    ended = { error }
  }
  // A body that used no step is held to those of earlier attempts all the same, where its end would be the last word.
  if (held.before.recoveryPoint !== null && ('answer' in ended || afterFailure(ended.error) !== 'rerun'))
    opening ??= openLedger(held, steps())
  over = true

  let ledger: Ledger<Tx> | undefined
  try {
    ledger = await opening
  } catch (error) {
    // What earlier attempts left could not be read, so whatever the body made of that cannot be the last word.
    const failure = 'error' in ended ? ended.error : error
    await settleFailure(held, { afterFailure: notFinal(afterFailure(failure)), error: failure })
    throw failure
  }
  const underWay = await ledger?.openStep()
  if (underWay && 'answer' in ended) {
    const message = `The body of ${held.claim.scope} returned while '${underWay}' was under way: await every step.`
    ended = { error: new OncekeyError('steps_overlap', message) }
  }
  return conclude(held, ledger, ended, afterFailure)
}

async function openLedger<Tx>(held: Held, store: StepStore<Tx>): Promise<Ledger<Tx>> {
  const { recoveryPoint, takenOver } = held.before
  if (!takenOver) return new Ledger(held, store, null, { steps: [], lastCommitAgeMs: 0 })
  const history = await patiently(() => store.stepsRead(held.lease), whileCertain(held), held.parts)
  return new Ledger(held, store, recoveryPoint, history)
}

/** The end of a run is what its steps came to, not what the body made of it: a catch cannot undo a lost lease or a parked key. */
async function conclude<Tx, R extends Answer>(
  held: Held,
  ledger: Ledger<Tx> | undefined,
  ended: Ended<R>,
  afterFailure: BodyOptions<Tx>['afterFailure'],
): Promise<Outcome<R>> {
  if (ledger && !ledger.end && 'answer' in ended) {
    // A removed phase is noticed here, where nothing is left to come to it. The parked end says the rest.
    await ledger.alone('its end', () => ledger.parkIfStepsAreUnknown('its end')).catch(() => {})
  }
  switch (ledger?.end?.kind) {
    case 'finished':
      return finishedOutcome(held.lease, ledger.end.answer)
    case 'parked':
      return { kind: 'parked', answer: outcomeUnknown }
    case 'lost':
    case 'crashed':
      throw ledger.end.error
  }
  const steps = ledger?.uncommitted ?? []
  if ('answer' in ended) return storeAnswer(held, ended.answer, steps)
  if (isSimulatedCrash(ended.error)) throw ended.error
  // An error is not the last word while nobody knows what became of a call.
  const inDoubt = ledger?.inDoubt ?? undefined
  const wanted = afterFailure(ended.error)
  const final = inDoubt === undefined ? wanted : notFinal(wanted)
  await settleFailure(held, { afterFailure: final, error: ended.error, steps, step: inDoubt })
  throw ended.error
}

/** A failure that must not be stored: the next attempt, or a person, finds out what happened. */
function notFinal(afterFailure: AfterFailure): 'rerun' | 'park' {
  return afterFailure === 'park' ? 'park' : 'rerun'
}
