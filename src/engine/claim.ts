import { crashPoint } from '../core/crash-points.js'
import { isOncekeyError } from '../core/errors.js'
import type { Lease } from '../core/record.js'
import type { KeyClaim, Limit, Verdict } from '../core/store.js'
import { endOfTurn } from './end-of-turn.js'
import type { EngineParts } from './parts.js'
import { patiently, pause } from './patience.js'
import { shuttingDown } from './running-work.js'

/** The result of a claim. */
export interface Claimed {
  readonly verdict: Verdict
  /** On the monotonic clock: its lease cannot have begun before this. */
  readonly since: number
}

/** A claim is repeated when its connection breaks, but a request must not wait out an outage. */
const claimTries = 3

/**
 * How often a waiting claim asks again. An answer should arrive within 50 ms of being stored in any process: two polls in that time
 * leave room for a slow one. Each poll is one statement that writes nothing.
 */
const askAgainMs = 20

/**
 * Claims the key; while another holder works on it, polls until `waitMs` are over. Each try sends the same claim, which the store recognises
 * by its token: a lost acknowledgement costs one repeat, and a key released or abandoned meanwhile is taken over. Throws if the process is
 * stopping.
 */
export async function claimKey(parts: EngineParts, claim: KeyClaim, waitMs = 0): Promise<Claimed> {
  const { clock, running } = parts
  running.assertOpen()
  crashPoint('claim:before')
  let since = clock.monotonic()
  const known = parts.answers?.find(claim)
  if (known) {
    // Cache hit: wait only for the end of the turn, so that all its responses are written together.
    await endOfTurn()
    return { verdict: known, since }
  }
  for (const waitUntil = since + waitMs; ; ) {
    const { verdict, sentAt } = await ask(parts, claim)
    const leftMs = waitUntil - clock.monotonic()
    if (verdict.kind === 'in-progress' && leftMs > 0 && running.isOpen) {
      // The key was not ours then. A later try may have taken it, even one that was never answered, so `since` must not be later.
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

/** One claim, tried until `storeTimeout`. If it fails but the store may have executed it, it is withdrawn. */
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
      // Too late to use, but it holds the key: withdraw it, so that retries need not wait for its lease.
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

/** The store may still have executed the claim. */
const isUnsure = (error: unknown) =>
  (isOncekeyError(error, 'store_timeout') || isOncekeyError(error, 'store_unavailable')) && !error.neverSent

/** Sends the claim once `ClaimPlaces` has room for it, and keeps the place until the call ends. */
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

/** A stopping process releases a key it has just claimed. If even that fails, the lease expires. */
async function giveBackUntouched(parts: EngineParts, lease: Lease): Promise<never> {
  const { store, clock, storeTimeoutMs } = parts
  const release = (limit: Limit) => store.keyRelease({ lease, reason: 'claimed by a process that was stopping' }, limit)
  await patiently(release, { until: clock.monotonic() + storeTimeoutMs, tries: claimTries }, parts).catch(() => {})
  throw shuttingDown()
}
