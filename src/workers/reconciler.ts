import { type Duration, durationMs } from '../core/duration.js'
import { OncekeyError } from '../core/errors.js'
import type { Once } from '../create-once.js'
import { warn } from '../engine/events.js'
import type { ReconcileKey } from '../reconcile/key-order.js'
import { type Difference, type ForBoth, forBoth, type ReconcileOptions, type ReconcileSummary, reconcile } from '../reconcile/reconcile.js'
import type { Stream } from '../reconcile/side.js'
import { checkCount, workerParts } from './parts.js'
import { type Counts, createService, type Service } from './service.js'
import { type HeldTurn, takeTurn } from './turn.js'

/** One look at both sides. */
export interface ReconcileRound {
  /** When it began, in milliseconds since the epoch, on the store's clock. */
  readonly now: number
  /** Later changes may be in progress: `now` less `grace`. */
  readonly settledBefore: number
  /** Aborted when the round is abandoned: the process stops, the round exceeds `maxRound`, or another process has the turn. */
  readonly signal: AbortSignal
}

export interface ReconcileReport {
  readonly name: string
  /** When the round began, in milliseconds since the epoch, on the store's clock. */
  readonly startedAt: number
  readonly durationMs: number
  readonly summary: ReconcileSummary
  /** How many differences were passed to `onDifference`. */
  readonly told: number
}

export interface ReconcilerOptions<Local, Foreign, Key extends ReconcileKey>
  extends Pick<ReconcileOptions<Local, Foreign, Key>, 'key' | 'compare' | 'order'> {
  /** What is reconciled, such as `'charges'`. One process at a time has the turn of a name. */
  name: string
  /** Our records, for one round. */
  local: (round: ReconcileRound) => Stream<Local>
  /** The other side's, for one round. */
  foreign: (round: ReconcileRound) => Stream<Foreign>
  /** Time between two rounds. Too low: needless calls to the other side. Too high: losses are found late. Default 1 h. */
  every?: Duration
  /**
   * When an item last changed, as a `Date` or in milliseconds since the epoch. Changes within `grace` are counted as `unsettled`, not
   * reported. Default: every item is settled, so a request in progress raises an alarm.
   */
  changedAt?: ForBoth<Local, Foreign, Date | number>
  /**
   * How long a request may be in progress: your slowest retry plus the clock difference. Too low: false alarms. Too high: late alarms.
   * Default 10 min.
   */
  grace?: Duration
  /**
   * Called for each difference, in order, after a round has read both sides to the end; again in each round until it is gone. An error it throws
   * becomes a warning. Default: only event listeners are notified.
   */
  onDifference?: (difference: Difference<Local, Foreign, Key>) => unknown
  /**
   * The most differences reported per round; all are counted. Held in memory until the round ends. Too low: some go unreported until
   * others are fixed. Too high: an empty side is a flood of alarms. Default 1,000.
   */
  maxDifferences?: number
  /** Called after each round that read both sides to the end. An error it throws becomes a warning. */
  onReport?: (report: ReconcileReport) => unknown
  /**
   * How long a process that dies blocks the others. Too low: a process that pauses loses its round. Too high: after a crash no process
   * reconciles for that long. Default 30 s.
   */
  turn?: Duration
  /** Time limit of a round. Too low: large rounds never finish. Too high: a hanging stream is noticed late. Default 1 h. */
  maxRound?: Duration
}

/** After a failed round, the next one starts within this time. */
const retryMs = 10 * 60_000

/** Compares our records with the other side's at intervals. Run it in every process: one at a time does the work. */
export function reconciler<Tx, Local, Foreign, Key extends ReconcileKey>(
  once: Once<Tx>,
  options: ReconcilerOptions<Local, Foreign, Key>,
): Service {
  const { name, every = '1h', grace = '10m', maxDifferences = 1_000, turn: turnLength = '30s', maxRound = '1h' } = options
  checkName(name)
  const parts = workerParts(once, `reconciler:${name}`)
  const { clock } = parts
  const { store, reportWorker } = once.internals.parts
  const { turns } = store
  if (!turns) throw new OncekeyError('turns_unsupported', 'This store has no turns, so every process would reconcile: use postgresStore().')
  const everyMs = durationMs(every, 'every')
  const graceMs = durationMs(grace, 'grace')
  const turnMs = durationMs(turnLength, 'turn')
  const maxRoundMs = durationMs(maxRound, 'maxRound')
  checkCount('maxDifferences', maxDifferences)
  checkFunctions(options)
  // Wrong options fail at start, not in the first round.
  reconcile({ ...comparison(0), local: [], foreign: [] })

  const service = createService({
    ...parts,
    // Often enough to replace a process that died.
    intervalMs: Math.min(everyMs, turnMs),
    run: (stopping) => takeRound(stopping, false),
  })

  return {
    ...service,
    async runOnce() {
      const startedAt = clock.monotonic()
      const counts = await takeRound(new AbortController().signal, true)
      parts.onRun(counts, clock.monotonic() - startedAt)
      return counts
    },
  }

  async function takeRound(stopping: AbortSignal, early: boolean): Promise<Counts> {
    const turn = await takeTurn({ ...parts, turns: turns as NonNullable<typeof turns>, name: `reconcile:${name}`, turnMs, early })
    if (!turn) return countsOf(undefined)
    const round = roundOf(turn, stopping)
    try {
      const summary = await wholeRound(turn, round.signal)
      await turn.end(everyMs)
      return countsOf(summary)
    } catch (error) {
      const isCutOff = stopping.aborted || turn.signal.aborted
      // The store may be what failed: then the turn expires.
      await turn.end(isCutOff ? 0 : Math.min(everyMs, retryMs)).catch(() => {})
      if (stopping.aborted) return countsOf(undefined)
      // An aborted stream may throw another error.
      throw round.signal.aborted ? round.signal.reason : error
    } finally {
      round.over()
    }
  }

  /** What may end a round early, as one signal. */
  function roundOf(turn: HeldTurn, stopping: AbortSignal): { readonly signal: AbortSignal; over(): void } {
    const ending = new AbortController()
    const tooLong = new OncekeyError('max_run_exceeded', `The round of ${name} took longer than maxRound: raise it, or find what hangs.`)
    const cancel = clock.schedule(() => ending.abort(tooLong), maxRoundMs, { background: true })
    const sources = [stopping, turn.signal].map((source) => {
      const follow = () => ending.abort(source.reason)
      if (source.aborted) follow()
      source.addEventListener('abort', follow)
      return () => source.removeEventListener('abort', follow)
    })
    return {
      signal: ending.signal,
      over() {
        cancel()
        for (const leave of sources) leave()
      },
    }
  }

  async function wholeRound({ now }: HeldTurn, signal: AbortSignal): Promise<ReconcileSummary> {
    const startedAt = clock.monotonic()
    const settledBefore = now - graceMs
    const round = { now, settledBefore, signal }
    const run = reconcile({ ...comparison(settledBefore), local: options.local(round), foreign: options.foreign(round), signal })
    const found: Difference<Local, Foreign, Key>[] = []
    // Reported at the end: a stream that turns out unsorted makes every difference wrong.
    for await (const difference of run) if (found.length < maxDifferences) found.push(difference)
    const { summary } = run
    const differences = summary.differs + summary.onlyLocal + summary.onlyForeign
    if (differences > 0) reportWorker({ type: 'differences-found', worker: parts.name, counts: countsOf(summary) })
    const { onDifference, onReport } = options
    for (const difference of onDifference ? found : []) await tell('onDifference', () => onDifference?.(difference), signal)
    const durationMs = clock.monotonic() - startedAt
    const told = onDifference ? found.length : 0
    await tell('onReport', () => onReport?.({ name, startedAt: now, durationMs, summary, told }), signal)
    return summary
  }

  function comparison(settledBefore: number) {
    const { key, compare, order, changedAt } = options
    return {
      key,
      ...(compare === undefined ? {} : { compare }),
      ...(order === undefined ? {} : { order }),
      ...(changedAt === undefined ? {} : { settled: settledIf(changedAt, settledBefore) }),
    }
  }
}

function settledIf<Local, Foreign>(
  changedAt: ForBoth<Local, Foreign, Date | number>,
  settledBefore: number,
): { local: (item: Local) => boolean; foreign: (item: Foreign) => boolean } {
  const isSettled = (moment: Date | number) => {
    const ms = Number(moment)
    if ((typeof moment === 'number' || moment instanceof Date) && !Number.isNaN(ms)) return ms < settledBefore
    throw new OncekeyError('option_invalid', `changedAt says ${String(moment)}: it must return a Date, or milliseconds since the epoch.`)
  }
  const { local, foreign } = forBoth('changedAt', changedAt)
  return { local: (item) => isSettled(local(item)), foreign: (item) => isSettled(foreign(item)) }
}

/** A hook that throws changes nothing; one that hangs ends with the round. */
async function tell(name: string, hook: () => unknown, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  let leave = () => {}
  const ended = new Promise<never>((_, reject) => {
    const end = () => reject(signal.reason)
    signal.addEventListener('abort', end)
    leave = () => signal.removeEventListener('abort', end)
  })
  const told = (async () => hook())().catch((error: unknown) => warn(name, error))
  try {
    await Promise.race([told, ended])
  } finally {
    leave()
  }
}

function countsOf(summary: ReconcileSummary | undefined): Counts {
  const { local = 0, foreign = 0, equal = 0, differs = 0, onlyLocal = 0, onlyForeign = 0, unsettled = 0 } = summary ?? {}
  return { rounds: summary ? 1 : 0, local, foreign, equal, differs, onlyLocal, onlyForeign, unsettled }
}

function checkName(name: unknown): void {
  if (typeof name === 'string' && /^[\w.:-]{1,100}$/.test(name)) return
  throw new OncekeyError('option_invalid', `name is ${String(name)}: it must be up to 100 letters, digits, dots, colons, _ and -.`)
}

function checkFunctions(options: object): void {
  const { local, foreign, onDifference, onReport } = options as Record<string, unknown>
  for (const [name, given] of Object.entries({ local, foreign })) {
    if (typeof given !== 'function')
      throw new OncekeyError('option_invalid', `${name} must be a function that returns a new stream for each round.`)
  }
  for (const [name, given] of Object.entries({ onDifference, onReport })) {
    if (given !== undefined && typeof given !== 'function') throw new OncekeyError('option_invalid', `${name} must be a function.`)
  }
}
