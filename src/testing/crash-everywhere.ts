import assert from 'node:assert/strict'
import { armCrashPoints, isSimulatedCrash, SimulatedCrash } from '../core/crash-points.js'
import { isOncekeyError } from '../core/errors.js'
import { thrownText } from '../core/thrown-text.js'

export interface CrashScenario {
  /** Makes one attempt, as a client's request or retry does. Called for the first attempt and for each retry. */
  attempt(): Promise<{ readonly kind: string }>
  /** Makes one attempt as a worker, from the stored request: `operation.resume(…)`. Omitted: only clients retry. */
  resume?(): Promise<{ readonly kind: string }>
  /** Your invariant: "one charge, one order, one receipt". Throws if it does not hold. */
  check(): Promise<void>
}

export interface CrashEverywhereOptions {
  /** A fresh scenario with its own key: called for each crash. */
  scenario(): Promise<CrashScenario> | CrashScenario
  /** Expires the lease of a dead holder without waiting: advances the store's time, or sets the lease back. */
  expireLeases(): Promise<void>
  /** Also crashes the retry, at each of its points in turn. More thorough, with quadratic run time. Default false. */
  twice?: boolean
}

export interface CrashReport {
  /** Every crash point reached, in order. */
  readonly points: readonly string[]
  /** The number of runs. */
  readonly runs: number
}

/** An outcome after which a client does not retry. */
const terminal = new Set(['executed', 'replayed', 'parked', 'mismatch', 'invalid'])

/**
 * Crashes an operation once at every boundary in it (before and after every statement, commit and call), retries as a client and as a
 * worker, and checks your invariant. The crash is simulated: the run stops there, its transaction rolls back, and nothing is released,
 * finished or renewed. To kill a real process, arm `crashAt()` in a child.
 *
 * @example await crashEverywhere({ scenario, expireLeases: () => advance('1h') })
 */
export async function crashEverywhere({ scenario, expireLeases, twice = false }: CrashEverywhereOptions): Promise<CrashReport> {
  const rehearsal = await scenario()
  const points = await pointsOf(rehearsal)
  const comebacks = rehearsal.resume ? (['attempt', 'resume'] as const) : (['attempt'] as const)
  let runs = 1
  for (const [index, point] of points.entries()) {
    for (const comeback of comebacks) runs += await crashOnce(index, point, comeback)
  }
  return { points, runs }

  async function crashOnce(index: number, point: string, comeback: 'attempt' | 'resume'): Promise<number> {
    const first = await scenario()
    await crashAtPoint(first, index, () => first.attempt())
    if (!twice) {
      await comeBack(first, point, comeback)
      return 1
    }
    const again = (subject: CrashScenario) => () => comingBack(subject, comeback)
    await expireLeases()
    const retryPoints = await pointsOf(first, again(first))
    for (const [second] of retryPoints.entries()) {
      const subject = await scenario()
      await crashAtPoint(subject, index, () => subject.attempt())
      await expireLeases()
      await crashAtPoint(subject, second, again(subject))
      await comeBack(subject, `${point}, then ${retryPoints[second]}`, comeback)
    }
    return 1 + retryPoints.length
  }

  async function comeBack(subject: CrashScenario, point: string, comeback: 'attempt' | 'resume'): Promise<void> {
    try {
      await expireLeases()
      if (comeback === 'resume') await comingBack(subject, comeback).catch(() => {})
      await untilTerminal(subject)
      await subject.check()
    } catch (error) {
      throw new Error(
        `after a crash at "${point}", with a comeback by ${comeback === 'resume' ? 'a worker' : 'the client'}: ${thrownText(error)}`,
        {
          cause: error,
        },
      )
    }
  }

  async function untilTerminal(subject: CrashScenario): Promise<void> {
    const seen: string[] = []
    for (let tries = 0; tries < 5; tries += 1) {
      const kind = await subject.attempt().then(
        (outcome) => outcome.kind,
        (error: unknown) => thrownText(error),
      )
      seen.push(kind)
      if (terminal.has(kind)) return
      await expireLeases()
    }
    assert.fail(`the key is wedged: five retries came to ${seen.join(', ')}`)
  }
}

/** A worker finds nothing to resume if the crash came before the claim; then only the client can retry. */
async function comingBack(subject: CrashScenario, comeback: 'attempt' | 'resume') {
  if (comeback === 'attempt' || !subject.resume) return subject.attempt()
  return subject.resume().catch((error: unknown) => {
    if (isOncekeyError(error, 'input_invalid')) return subject.attempt()
    throw error
  })
}

/** Runs without a crash, and records the crash points. */
async function pointsOf(subject: CrashScenario, run = () => subject.attempt()): Promise<string[]> {
  const points: string[] = []
  const disarm = armCrashPoints((point) => void points.push(point))
  try {
    await run()
  } finally {
    disarm()
  }
  await subject.check()
  return points
}

async function crashAtPoint(subject: CrashScenario, index: number, run = () => subject.attempt()): Promise<void> {
  const disarm = crashAt(index, (point) => {
    throw new SimulatedCrash(point)
  })
  try {
    await run()
    assert.fail(`the run has no crash point number ${index}: it takes another way each time`)
  } catch (error) {
    if (!isSimulatedCrash(error)) throw error
  } finally {
    disarm()
  }
}

/**
 * Arms the crash point with that number, counted from now: for a child process that is really killed there.
 *
 * @example crashAt(3, () => process.kill(process.pid, 'SIGKILL'))
 */
export function crashAt(index: number, crash: (point: string) => void): () => void {
  let left = index
  return armCrashPoints((point) => {
    if (left === 0) crash(point)
    left -= 1
  })
}
