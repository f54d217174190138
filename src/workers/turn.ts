import type { Clock, Random } from '../core/clock.js'
import { OncekeyError } from '../core/errors.js'
import type { TurnStore } from '../core/store.js'

/** A turn that this process keeps until it ends it. */
export interface HeldTurn {
  /** The store's time when it began. */
  readonly now: number
  /** Aborted when another process may have the turn. */
  readonly signal: AbortSignal
  /** The next turn is due in `nextInMs`, for any process. */
  end(nextInMs: number): Promise<void>
}

interface TurnParts {
  readonly turns: TurnStore
  readonly clock: Clock
  readonly random: Random
  readonly name: string
  readonly turnMs: number
  readonly early: boolean
}

/** Undefined if another process has it, or it is not due. */
export async function takeTurn({ turns, clock, random, name, turnMs, early }: TurnParts): Promise<HeldTurn | undefined> {
  const turn = { name, holder: random.uuid(), turnMs }
  const lost = new AbortController()
  let askedAt = clock.monotonic()
  let ended = false
  const taken = await turns.turnTake({ ...turn, early })
  if (!taken) return undefined
  let cancelBeat = planBeat()
  let cancelEnd = planEnd()

  return {
    now: taken.now,
    signal: lost.signal,
    async end(nextInMs) {
      stop()
      await turns.turnEnd({ ...turn, nextInMs })
    },
  }

  function planBeat() {
    return clock.schedule(() => void beat(), turnMs / 3, { background: true })
  }

  /** Counted from before the request was sent, so it never ends too late. */
  function planEnd() {
    return clock.schedule(giveUp, Math.max(0, turnMs - (clock.monotonic() - askedAt)), { background: true })
  }

  async function beat(): Promise<void> {
    const now = clock.monotonic()
    // A short outage is tolerated. In a longer one the turn ends here.
    const kept = await turns.turnKeep(turn).catch(() => undefined)
    if (ended) return
    if (kept === false) return giveUp()
    if (kept) {
      askedAt = now
      cancelEnd()
      cancelEnd = planEnd()
    }
    cancelBeat = planBeat()
  }

  function giveUp(): void {
    stop()
    lost.abort(
      new OncekeyError('turn_lost', `The turn of ${name} was not renewed in time: another process may have it. The round was abandoned.`),
    )
  }

  function stop(): void {
    ended = true
    cancelBeat()
    cancelEnd()
  }
}
