import { type Answer, checkAnswer } from '../core/answer.js'
import { isSimulatedCrash } from '../core/crash-points.js'
import { OncekeyError } from '../core/errors.js'
import type { AfterFailure } from '../core/policy.js'
import type { StepStore } from '../core/store.js'
import { outcomeUnknown } from '../core/system-answers.js'
import { type Held, settleFailure, storeAnswer } from '../engine/held.js'
import type { Outcome } from '../engine/outcome.js'
import { Attempt } from './attempt.js'
import { finishedOutcome } from './finish.js'
import type { Ledger } from './ledger.js'
import { openLedger } from './operation-run.js'

export interface BodyOptions<Tx> {
  /** What steps are made with. Throws for a store that has none, which matters only to a body that uses one. */
  steps(): StepStore<Tx>
  /** What becomes of the key when the body throws this. */
  afterFailure(error: unknown, held: Held): AfterFailure
}

export type Ended<R> = { readonly answer: R } | { readonly error: unknown }

/** Runs a body on a key that is held, and stores what it comes to. */
export async function runBody<Tx, R extends Answer>(
  held: Held,
  { steps, afterFailure }: BodyOptions<Tx>,
  body: (attempt: Attempt<Tx>) => Promise<R> | R,
): Promise<Outcome<R>> {
  const attempt = new Attempt<Tx>(held, steps)
  let ended: Ended<R>
  try {
    ended = { answer: checkAnswer(await body(attempt)) }
  } catch (error) {
    ended = { error }
  }
  return concludeBody(held, attempt, ended, { steps, afterFailure })
}

/** Stores what a body came to. */
export async function concludeBody<Tx, R extends Answer>(
  held: Held,
  attempt: Attempt<Tx>,
  ended: Ended<R>,
  { steps, afterFailure }: BodyOptions<Tx>,
): Promise<Outcome<R>> {
  let opened = attempt.end()
  // A body that used no step is held to those of earlier attempts all the same, where its end would be the last word.
  if (held.before.recoveryPoint !== null && ('answer' in ended || afterFailure(ended.error, held) !== 'rerun')) {
    opened ??= openLedger(held, steps())
  }
  if (opened) return concludeSteps(held, opened, ended, afterFailure)
  if ('answer' in ended) return storeAnswer(held, ended.answer)
  return failed(held, undefined, ended.error, afterFailure)
}

/** The end of a run is what its steps came to, not what the body made of it: a catch cannot undo a lost lease or a parked key. */
async function concludeSteps<Tx, R extends Answer>(
  held: Held,
  opened: Promise<Ledger<Tx>>,
  body: Ended<R>,
  afterFailure: BodyOptions<Tx>['afterFailure'],
): Promise<Outcome<R>> {
  let ended = body
  let ledger: Ledger<Tx>
  try {
    ledger = await opened
  } catch (error) {
    // What earlier attempts left could not be read, so whatever the body made of that cannot be the last word.
    const failure = 'error' in ended ? ended.error : error
    await settleFailure(held, { afterFailure: notFinal(afterFailure(failure, held)), error: failure })
    throw failure
  }
  const underWay = await ledger.openStep()
  if (underWay && 'answer' in ended) {
    const message = `The body of ${held.claim.scope} returned while '${underWay}' was under way: await every step.`
    ended = { error: new OncekeyError('steps_overlap', message) }
  }
  if (!ledger.end && 'answer' in ended) {
    // A removed phase is noticed here, where nothing is left to come to it. The parked end says the rest.
    await ledger.alone('its end', () => ledger.parkIfStepsAreUnknown('its end')).catch(() => {})
  }
  switch (ledger.end?.kind) {
    case 'finished':
      return finishedOutcome(held.lease, ledger.end.answer)
    case 'parked':
      return { kind: 'parked', answer: outcomeUnknown }
    case 'failed':
      return failed(held, ledger, ledger.end.error, afterFailure)
    case 'lost':
    case 'crashed':
      throw ledger.end.error
  }
  return 'answer' in ended ? storeAnswer(held, ended.answer, ledger.uncommitted) : failed(held, ledger, ended.error, afterFailure)
}

async function failed<Tx>(
  held: Held,
  ledger: Ledger<Tx> | undefined,
  error: unknown,
  afterFailure: BodyOptions<Tx>['afterFailure'],
): Promise<never> {
  if (isSimulatedCrash(error)) throw error
  // An error is not the last word while the outcome of a call is unknown.
  const inDoubt = ledger?.inDoubt ?? undefined
  const wanted = afterFailure(error, held)
  const final = inDoubt === undefined ? wanted : notFinal(wanted)
  await settleFailure(held, { afterFailure: final, error, steps: ledger?.uncommitted ?? [], step: inDoubt })
  throw error
}

/** A failure that must not be stored: the next attempt, or a person, finds out what happened. */
function notFinal(afterFailure: AfterFailure): 'rerun' | 'park' {
  return afterFailure === 'park' ? 'park' : 'rerun'
}
