import { crashPoint } from '../core/crash-points.js'
import type { KeyClaim, Verdict } from '../core/store.js'
import type { EngineParts } from './parts.js'
import { patiently } from './patience.js'

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
 * it knows itself, so a lost acknowledgement costs a repeat, and a key that is given back or abandoned meanwhile is taken over.
 */
export async function claimKey(parts: EngineParts, claim: KeyClaim, waitMs = 0): Promise<Claimed> {
  const { clock, running } = parts
  let since = clock.monotonic()
  const until = since + waitMs
  crashPoint('claim:before')
  for (;;) {
    const { verdict, sentAt } = await ask(parts, claim)
    const leftMs = until - clock.monotonic()
    if (verdict.kind !== 'in-progress' || leftMs <= 0 || !running.isOpen) {
      crashPoint('claim:after')
      return { verdict, since }
    }
    // The key was not ours then. Later tries may have taken it, also one whose answer never came, so "since" must not be later.
    since = sentAt
    await new Promise<void>((resolve) => clock.schedule(resolve, Math.min(askAgainMs, leftMs)))
  }
}

/**
 * The same for a process that may stop meanwhile: a key that it is given then is given back at once, untouched. Should even that fail, its
 * lease runs out.
 */
export async function claimUnlessStopping(parts: EngineParts, claim: KeyClaim, waitMs: number): Promise<Claimed> {
  const { store, running, clock, storeTimeoutMs } = parts
  running.assertOpen()
  const claimed = await claimKey(parts, claim, waitMs)
  if (running.isOpen || claimed.verdict.kind !== 'execute') return claimed
  const { lease } = claimed.verdict
  const release = () => store.keyRelease({ lease, reason: 'claimed by a process that was stopping' })
  await patiently(release, { until: clock.monotonic() + storeTimeoutMs, tries: claimTries }, parts).catch(() => {})
  running.assertOpen()
  return claimed
}

/** Each ask has the whole of the patience with the store. */
async function ask(parts: EngineParts, claim: KeyClaim): Promise<{ verdict: Verdict; sentAt: number }> {
  const { store, clock, storeTimeoutMs, answers } = parts
  let sentAt = clock.monotonic()
  const known = answers?.find(claim)
  if (known) return { verdict: known, sentAt }
  const send = () => {
    sentAt = clock.monotonic()
    return store.keyClaim(claim)
  }
  // Too late to be used, but it holds the key: give it back rather than let every retry wait out the lease.
  const late = (verdict: Verdict) => {
    if (verdict.kind === 'execute') store.keyRelease({ lease: verdict.lease, reason: 'claimed too late' }).catch(() => {})
  }
  try {
    const verdict = await patiently(send, { until: sentAt + storeTimeoutMs, tries: claimTries }, parts, late)
    if (verdict.kind === 'replay') answers?.remember(claim, verdict, sentAt)
    return { verdict, sentAt }
  } catch (error) {
    parts.report(claim, { type: 'not-claimed', error })
    throw error
  }
}
