import type { Clock } from '../core/clock.js'
import { crashPoint, isSimulatedCrash } from '../core/crash-points.js'
import { OncekeyError, storeTimeout } from '../core/errors.js'
import type { StepStore } from '../core/store.js'
import { safely, thrownText } from '../core/thrown-text.js'
import type { EngineParts } from '../engine/parts.js'
import { TransactionPart } from './transaction-part.js'

/** A transaction that loses against another one this often has a problem that repeating does not solve. */
const maxTries = 20

/** The pause before the second try is at most twice the first, and doubles up to the longest. */
const firstDelayMs = 5
const longestDelayMs = 200

export interface Together<Tx, T> {
  /** For crash points. */
  readonly name: string
  /** How long the work may take in all tries together, the user's own statements included. */
  readonly workMs: number
  /** The user's writes and, as its last statement, ours. May run several times: what it did before is rolled back. */
  run(tx: Tx, part: TransactionPart): Promise<T>
  /** Whether the run wrote nothing. Its value is final then, whatever becomes of the transaction, and no caller waits for its end. */
  wroteNothing?(): boolean
  /** What an earlier try committed, if it did: asked when its acknowledgement was lost. */
  committedBefore(): Promise<{ readonly value: T } | undefined>
}

/**
 * The user's writes and ours in one commit. Serialization failures and deadlocks repeat the whole; a commit whose acknowledgement was
 * lost is looked up, not repeated blindly. What the work throws comes out as it is; what the transaction throws, in our words.
 */
export async function commitTogether<Tx, T>(parts: EngineParts, store: StepStore<Tx>, together: Together<Tx, T>): Promise<T> {
  const time = new WorkTime(parts.clock, together.workMs)
  for (let tries = 1; ; tries += 1) {
    const tried = await tryOnce(parts, store, together, time)
    if ('value' in tried) return tried.value
    const { error, stage } = tried
    if (isSimulatedCrash(error)) throw error
    const isRepeated = safely(() => error instanceof CommittedBefore, false)
    const failure = isRepeated ? 'other' : store.failureOf(error)
    const inDoubt = isRepeated || (stage === 'committing' && failure === 'connection')
    const before = inDoubt ? await together.committedBefore() : undefined
    if (before) return before.value
    const again = inDoubt || failure === 'serialization'
    if (!again || tries >= maxTries) throw lastWord(store, { error, stage }, failure)
    if (time.leftMs() <= 0) throw workTimeout(together.workMs, error)
    await backOff(parts, tries)
  }
}

/** With jitter, so that transactions that conflicted do not conflict again. */
function backOff({ clock, random }: EngineParts, tries: number): Promise<void> {
  const delayMs = random.fraction() * Math.min(longestDelayMs, firstDelayMs * 2 ** tries)
  return new Promise((resolve) => clock.schedule(resolve, delayMs))
}

/** What the work threw comes out as it is, and so does what the database says of the work's writes at the commit. */
function lastWord<Tx>(store: StepStore<Tx>, { error, stage }: Failed, failure: ReturnType<typeof store.failureOf>): unknown {
  if (failure === 'serialization') return conflict(error)
  if (failure === 'expired') return store.troubleOf(error)
  return stage === 'working' || (stage === 'committing' && failure === 'refused') ? error : store.troubleOf(error)
}

const conflict = (cause: unknown) =>
  new OncekeyError(
    'store_conflict',
    `The transaction conflicted with others: it was tried ${maxTries} times, and rolled back each time. Retry later. ` +
      `If this happens often, reduce the number of transactions that write to the same rows at once. (${thrownText(cause)})`,
    { cause },
  )

interface Failed {
  readonly error: unknown
  readonly stage: 'beginning' | 'working' | 'committing'
}

async function tryOnce<Tx, T>(
  parts: EngineParts,
  store: StepStore<Tx>,
  { name, run, wroteNothing = () => false }: Together<Tx, T>,
  time: WorkTime,
): Promise<{ readonly value: T } | Failed> {
  let stage: Failed['stage'] = 'beginning'
  let part: TransactionPart | undefined
  try {
    crashPoint(`${name}:before`)
    const value = await inTime(parts, store, { time, wroteNothing }, async (tx) => {
      stage = 'working'
      crashPoint(`${name}:begun`)
      part = TransactionPart.whole(tx, name)
      const value = await run(tx, part)
      crashPoint(`${name}:written`)
      stage = 'committing'
      return value
    })
    crashPoint(`${name}:committed`)
    return { value }
  } catch (error) {
    return { error, stage }
  } finally {
    part?.end()
  }
}

/**
 * Rejects when a part of the transaction takes too long, even if the driver keeps waiting. An abandoned transaction neither begins its work
 * later nor commits it. Only a commit that was already sent may still take effect.
 */
function inTime<Tx, T>(
  { clock, storeTimeoutMs }: EngineParts,
  store: StepStore<Tx>,
  { time, wroteNothing }: { readonly time: WorkTime; wroteNothing(): boolean },
  work: (tx: Tx) => Promise<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let givenUp: OncekeyError | undefined
    let cancel = () => {}
    const allow = (delayMs: number, error: () => OncekeyError) => {
      cancel()
      cancel = clock.schedule(() => {
        givenUp = error()
        reject(givenUp)
      }, delayMs)
    }
    allow(storeTimeoutMs, () => storeTimeout({ neverSent: true }))
    const worked = async (tx: Tx) => {
      if (givenUp) throw givenUp
      time.begin()
      allow(time.leftMs(), () => workTimeout(time.workMs))
      const value = await work(tx)
      if (givenUp) throw givenUp
      if (wroteNothing()) resolve(value)
      else allow(storeTimeoutMs, storeTimeout)
      return value
    }
    const limits = { timeoutMs: storeTimeoutMs, workMs: time.leftMs() }
    store
      .transaction(worked, limits)
      .finally(() => cancel())
      .then(resolve, reject)
  })
}

/** The time of the work, from its first try on. */
class WorkTime {
  #until: number | undefined

  constructor(
    private readonly clock: Clock,
    readonly workMs: number,
  ) {}

  begin(): void {
    this.#until ??= this.clock.monotonic() + this.workMs
  }

  leftMs(): number {
    return this.#until === undefined ? this.workMs : Math.max(0, this.#until - this.clock.monotonic())
  }
}

const workTimeout = (workMs: number, cause?: unknown) =>
  new OncekeyError(
    'max_run_exceeded',
    `The work in a transaction exceeded maxRun, of which ${Math.round(workMs)} ms remained: the transaction was rolled back. Look for a ` +
      'statement that waits for a lock, or raise maxRun.',
    { cause },
  )

/** Makes the user's transaction roll back, because an earlier try turned out to have been committed. */
export class CommittedBefore extends Error {}
