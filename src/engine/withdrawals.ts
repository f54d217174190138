import type { Clock } from '../core/clock.js'
import { isOncekeyError, isStoreTrouble } from '../core/errors.js'
import type { KeyRef } from '../core/key.js'
import type { KeyClaim, KeyStore } from '../core/store.js'
import { ClaimPlaces } from './claim-places.js'

interface Withdrawal {
  readonly claim: KeyRef & { readonly owner: string }
  /** How long one try may take. */
  readonly timeoutMs: number
  /** Next try, on the monotonic clock. */
  dueAt: number
  /** How often the store has answered `absent`. */
  absences: number
}

/** The most unanswered claims of a process: each may have to be withdrawn, and takes some 300 bytes until then. */
const mostUnanswered = 10_000

/** Two full statements of Postgres. */
const atOnce = 512
const longestTryMs = 5_000
/** A late claim is withdrawn before its lease ends, even if the first try is sent on a silent connection. */
const triesPerLease = 3
const firstPauseMs = 250
/** While the store is unavailable. Short, so that a lease of a few seconds does not expire within one pause. */
const longestPauseMs = 1_000

/**
 * A server that hung executes queued statements in any order, so a claim may arrive after its withdrawal. It counts as absent after this many
 * `absent` results, with pauses that triple: 3.25 s in all.
 */
const absencesNeeded = 4

/**
 * Withdraws claims that failed for their callers, but that the store may have executed. Otherwise such a key would be in progress until its
 * lease ends, and its `afterFailure` would apply to work that never ran. Retries until the store answers. Each claim has its own backoff.
 */
export class Withdrawals {
  readonly #store: Pick<KeyStore, 'keyWithdraw'>
  readonly #clock: Clock
  /** By the token of the claim, oldest first. */
  readonly #waiting = new Map<string, Withdrawal>()
  /** Limits the claims sent to those that can be withdrawn. */
  readonly places: ClaimPlaces
  #round: Promise<void> | undefined
  #endPause = () => {}

  constructor(store: Pick<KeyStore, 'keyWithdraw'>, clock: Clock, most = mostUnanswered) {
    this.#store = store
    this.#clock = clock
    this.places = new ClaimPlaces(clock, most, this.#waiting)
  }

  add({ tenant, scope, key, owner, leaseMs }: KeyClaim): void {
    const timeoutMs = Math.min(longestTryMs, leaseMs / triesPerLease)
    this.#waiting.set(owner, { claim: { tenant, scope, key, owner }, timeoutMs, dueAt: this.#clock.monotonic(), absences: 0 })
    this.#endPause()
    this.#round ??= this.#work().finally(() => {
      this.#round = undefined
    })
  }

  /** One more try for all, before the process ends. Those not done within `withinMs` are left to their leases. */
  async stop(withinMs: number): Promise<void> {
    const all = [...this.#waiting.values()]
    this.#waiting.clear()
    await this.#try(all, this.#clock.monotonic() + withinMs)
  }

  async #work(): Promise<void> {
    for (let awayMs = 0; this.#waiting.size > 0; ) {
      if (awayMs > 0) await new Promise<void>((resolve) => void this.#clock.schedule(resolve, awayMs, { background: true }))
      else await this.#untilDue()
      const now = this.#clock.monotonic()
      const isReachable = await this.#try([...this.#waiting.values()].filter(({ dueAt }) => dueAt <= now))
      awayMs = isReachable ? 0 : Math.min(longestPauseMs, Math.max(firstPauseMs, 2 * awayMs))
    }
  }

  /** Waits until one is due, or another is added. */
  async #untilDue(): Promise<void> {
    let dueAt = Number.POSITIVE_INFINITY
    for (const withdrawal of this.#waiting.values()) dueAt = Math.min(dueAt, withdrawal.dueAt)
    const delayMs = dueAt - this.#clock.monotonic()
    if (delayMs <= 0) return
    await new Promise<void>((resolve) => {
      const cancel = this.#clock.schedule(resolve, delayMs, { background: true })
      this.#endPause = () => {
        cancel()
        resolve()
      }
    })
    this.#endPause = () => {}
  }

  /** False if the store did not answer. Stops at the first such error: the others would fail too. */
  async #try(withdrawals: readonly Withdrawal[], until = Number.POSITIVE_INFINITY): Promise<boolean> {
    const all = withdrawals.values()
    let isReachable = true
    const takeTurns = async () => {
      for (const withdrawal of all) {
        const leftMs = until - this.#clock.monotonic()
        if (!isReachable || leftMs <= 0) return
        if (!(await this.#isAnswered(withdrawal, leftMs))) isReachable = false
      }
    }
    await Promise.all(Array.from({ length: atOnce }, takeTurns))
    return isReachable
  }

  async #isAnswered(withdrawal: Withdrawal, leftMs: number): Promise<boolean> {
    const { claim } = withdrawal
    const timeoutMs = Math.min(withdrawal.timeoutMs, leftMs)
    try {
      const result = await this.#store.keyWithdraw(claim, { timeoutMs })
      if (result === 'absent') withdrawal.absences += 1
      if (result === 'done' || withdrawal.absences >= absencesNeeded) this.#forget(withdrawal)
      withdrawal.dueAt = this.#clock.monotonic() + firstPauseMs * 3 ** Math.max(0, withdrawal.absences - 1)
      return true
    } catch (error) {
      const isWaiting = this.#forget(withdrawal)
      if (!isStoreTrouble(error)) return true
      // To the end of the queue: this row may be in trouble for long.
      if (isWaiting) this.#waiting.set(claim.owner, withdrawal)
      withdrawal.dueAt = this.#clock.monotonic() + firstPauseMs
      return !isSilence(error)
    }
  }

  /** False if it is gone, or the same claim was added again. */
  #forget(withdrawal: Withdrawal): boolean {
    const { owner } = withdrawal.claim
    if (this.#waiting.get(owner) !== withdrawal) return false
    this.#waiting.delete(owner)
    this.places.offer()
    return true
  }
}

/** The store could not be reached. Any other error may concern one row. */
const isSilence = (error: unknown) => isOncekeyError(error, 'store_unavailable') || isOncekeyError(error, 'store_timeout')
