import { crashPoint } from '../core/crash-points.js'
import { isOncekeyError } from '../core/errors.js'
import type { Lease } from '../core/record.js'
import type { KeyClaim, Limit, Verdict } from '../core/store.js'
import { endOfTurn } from './end-of-turn.js'
import type { EngineParts } from './parts.js'
import { patiently, pause } from './patience.js'
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
 * Asks for the key; while another holder works on it, again and again until `waitMs` are over. Always with the same claim: by its token
 * it knows itself, so a lost acknowledgement costs a repeat, and a key that is given back or abandoned meanwhile is taken over. Throws at
 * once in a process that is stopping.
 */
export async function claimKey(parts: EngineParts, claim: KeyClaim, waitMs = 0): Promise<Claimed> {
  const { clock, running } = parts
  running.assertOpen()
  crashPoint('claim:before')
  let since = clock.monotonic()
  const known = parts.answers?.find(claim)
  if (known) {
    // Wait only for the end of the turn: the answers of all requests that came in it are then written in order.
    await endOfTurn()
    return { verdict: known, since }
  }
  for (const waitUntil = since + waitMs; ; ) {
    const { verdict, sentAt } = await ask(parts, claim)
    const leftMs = waitUntil - clock.monotonic()
    if (verdict.kind === 'in-progress' && leftMs > 0 && running.isOpen) {
      // The key was not ours then. Later tries may have taken it, also one whose answer never came, so "since" must not be later.
      since = sentAt
      await pause(clock, Math.min(askAgainMs, leftMs))
      continue
    }
    crashPoint('claim:after')
    if (verdict.kind === 'execute' && !running.isOpen) return giveBackUntouched(parts, verdict.lease)
    return { verdict, since }
  }
}

interface Asked {
  readonly verdict: Verdict
  /** When the last try was sent. */
  readonly sentAt: number
}

/** One claim, tried until `storeTimeout`. If it fails although the store may have executed it, it is withdrawn. */
async function ask(parts: EngineParts, claim: KeyClaim): Promise<Asked> {
  const { clock, storeTimeoutMs, withdrawals, report } = parts
  let sentAt = clock.monotonic()
  let mayHaveArrived = false
  let hasFailed = false
  const send = (limit: Limit) =>
    sendInPlace(parts, claim, limit, (moment) => {
      sentAt = moment
    })
  try {
    const verdict = await patiently(send, { until: sentAt + storeTimeoutMs, tries: claimTries }, parts, {
      tried(error) {
        if (!isUnsure(error)) return
        mayHaveArrived = true
        if (hasFailed) withdrawals.add(claim)
      },
      // Too late to be used, but it holds the key: undo it, so that retries need not wait for the lease to end.
      late(verdict) {
        if (verdict.kind === 'execute') withdrawals.add(claim)
      },
    })
    return { verdict, sentAt }
  } catch (error) {
    hasFailed = true
    if (mayHaveArrived) withdrawals.add(claim)
    report(claim, { type: 'not-claimed', error })
    throw error
  }
}

/** The store may have executed a claim that failed like this. */
const isUnsure = (error: unknown) =>
  (isOncekeyError(error, 'store_timeout') || isOncekeyError(error, 'store_unavailable')) && !error.neverSent

/** Sends the claim as soon as it has a place among those that the process can withdraw, and keeps the place until its end. */
async function sendInPlace(parts: EngineParts, claim: KeyClaim, limit: Limit, onSent: (moment: number) => void): Promise<Verdict> {
  const { clock, withdrawals, store, answers } = parts
  const { places } = withdrawals
  const left = places.take() ? limit : await places.wait(limit)
  try {
    const sentAt = clock.monotonic()
    onSent(sentAt)
    const verdict = await store.keyClaim(claim, left)
    if (verdict.kind === 'replay') answers?.remember(claim, verdict, sentAt)
    return verdict
  } finally {
    places.release()
  }
}

/** A process that stops begins nothing with a key that it is given then. Should even giving it back fail, its lease runs out. */
async function giveBackUntouched(parts: EngineParts, lease: Lease): Promise<never> {
  const { store, clock, storeTimeoutMs } = parts
  const release = (limit: Limit) => store.keyRelease({ lease, reason: 'claimed by a process that was stopping' }, limit)
  await patiently(release, { until: clock.monotonic() + storeTimeoutMs, tries: claimTries }, parts).catch(() => {})
  throw shuttingDown()
}
