import { crashPoint } from '../core/crash-points.js'
import { isOncekeyError, storeTimeout } from '../core/errors.js'
import type { Lease } from '../core/record.js'
import type { KeyClaim, Limit, Verdict } from '../core/store.js'
import type { AnswerCache } from './answer-cache.js'
import { endOfTurn } from './end-of-turn.js'
import type { EngineParts } from './parts.js'
import { type Patience, PatientCall, patiently } from './patience.js'
import { shuttingDown } from './running-work.js'

/** What a claim came to. */
export interface Claimed {
  readonly verdict: Verdict
  /** A moment, on the monotonic clock, before which a lease that it got cannot have begun. */
  readonly since: number
}

/** A claim is repeated when its connection breaks, but a request must not wait out an outage. */
const claimTries = 3

/**
 * How often a claim that waits asks again. The answer should be with it within 50 ms of being stored, wherever that was done: two asks
 * in that time leave room for a slow one. Each is one statement that writes nothing.
 */
const askAgainMs = 20

/**
 * Asks for the key; while somebody else works on it, again and again until `waitMs` are over. Always with the same claim: by its token
 * it knows itself, so a lost acknowledgement costs a repeat, and a key that is given back or abandoned meanwhile is taken over. Throws at
 * once in a process that is stopping.
 */
export function claimKey(parts: EngineParts, claim: KeyClaim, waitMs = 0): Promise<Claimed> {
  parts.running.assertOpen()
  crashPoint('claim:before')
  const known = parts.answers?.find(claim)
  // Nobody is asked, so nobody is waited for but those who come in the same turn: their answers are then written one behind the other.
  if (known) return endOfTurn().then(() => ({ verdict: known, since: parts.clock.monotonic() }))
  return new Claiming(parts, claim, waitMs).begin()
}

class Claiming extends PatientCall<Verdict, Claimed> {
  declare protected readonly parts: EngineParts
  readonly #claim: KeyClaim
  readonly #waitUntil: number
  #since: number
  #sentAt: number
  /** A try failed, but the store may have executed it. */
  #isUnsure = false
  #hasFailed = false
  #hasPlace = false

  constructor(parts: EngineParts, claim: KeyClaim, waitMs: number) {
    super(parts)
    this.#claim = claim
    this.#since = parts.clock.monotonic()
    this.#sentAt = this.#since
    this.#waitUntil = this.#since + waitMs
  }

  /** The whole of it for each ask. */
  protected override patience(): Patience {
    const { clock, storeTimeoutMs } = this.parts
    return { until: clock.monotonic() + storeTimeoutMs, tries: claimTries }
  }

  protected override send(limit: Limit): Promise<Verdict> {
    const { places } = this.parts.withdrawals
    this.#hasPlace = places.take()
    return this.#hasPlace ? this.#sendNow(limit) : this.#sendLater(limit)
  }

  async #sendLater(limit: Limit): Promise<Verdict> {
    const { clock, withdrawals } = this.parts
    const until = clock.monotonic() + limit.timeoutMs
    await withdrawals.places.wait(limit)
    this.#hasPlace = true
    const timeoutMs = until - clock.monotonic()
    if (timeoutMs <= 0) throw storeTimeout({ neverSent: true })
    return this.#sendNow({ timeoutMs })
  }

  protected override ended(): void {
    if (this.#hasPlace) this.parts.withdrawals.places.release()
    this.#hasPlace = false
  }

  #sendNow(limit: Limit): Promise<Verdict> {
    const { clock, store, answers } = this.parts
    this.#sentAt = clock.monotonic()
    return answers ? askAndRemember(store, answers, this.#claim, limit, this.#sentAt) : store.keyClaim(this.#claim, limit)
  }

  protected override asksAgainInMs(verdict: Verdict): number | undefined {
    if (verdict.kind !== 'in-progress') return undefined
    const { clock, running } = this.parts
    const leftMs = this.#waitUntil - clock.monotonic()
    if (leftMs <= 0 || !running.isOpen) return undefined
    // The key was not ours then. Later tries may have taken it, also one whose answer never came, so "since" must not be later.
    this.#since = this.#sentAt
    return Math.min(askAgainMs, leftMs)
  }

  protected override answered(verdict: Verdict): Claimed | Promise<Claimed> {
    crashPoint('claim:after')
    if (verdict.kind === 'execute' && !this.parts.running.isOpen) return giveBackUntouched(this.parts, verdict.lease)
    return { verdict, since: this.#since }
  }

  protected override tried(error: unknown): void {
    const mayHaveArrived = isOncekeyError(error, 'store_timeout') || isOncekeyError(error, 'store_unavailable')
    if (!mayHaveArrived || error.neverSent) return
    this.#isUnsure = true
    if (this.#hasFailed) this.parts.withdrawals.add(this.#claim)
  }

  protected override failed(error: unknown): never {
    this.#hasFailed = true
    if (this.#isUnsure) this.parts.withdrawals.add(this.#claim)
    this.parts.report(this.#claim, { type: 'not-claimed', error })
    throw error
  }

  /** Too late to be used, but it holds the key: undo it, so that retries need not wait for the lease to end. */
  protected override late(verdict: Verdict): void {
    if (verdict.kind === 'execute') this.parts.withdrawals.add(this.#claim)
  }
}

async function askAndRemember(
  store: EngineParts['store'],
  answers: AnswerCache,
  claim: KeyClaim,
  limit: Limit,
  sentAt: number,
): Promise<Verdict> {
  const verdict = await store.keyClaim(claim, limit)
  if (verdict.kind === 'replay') answers.remember(claim, verdict, sentAt)
  return verdict
}

/** A process that stops begins nothing with a key that it is given then. Should even giving it back fail, its lease runs out. */
async function giveBackUntouched(parts: EngineParts, lease: Lease): Promise<never> {
  const { store, clock, storeTimeoutMs } = parts
  const release = (limit: Limit) => store.keyRelease({ lease, reason: 'claimed by a process that was stopping' }, limit)
  await patiently(release, { until: clock.monotonic() + storeTimeoutMs, tries: claimTries }, parts).catch(() => {})
  throw shuttingDown()
}
