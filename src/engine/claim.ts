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
  const { store, clock, running, storeTimeoutMs, answers } = parts
  running.assertOpen()
  let since = clock.monotonic()
  let sentAt = since
  const until = since + waitMs
  const send = () => {
    sentAt = clock.monotonic()
    return store.keyClaim(claim)
  }
  crashPoint('claim:before')
  for (;;) {
    let verdict: Verdict | undefined = answers?.find(claim)
    if (!verdict) {
      try {
        // Each ask has the whole of the patience with the store.
        const patience = { until: clock.monotonic() + storeTimeoutMs, tries: claimTries }
        verdict = await patiently(send, patience, parts, (late) => giveBackLate(parts, late))
      } catch (error) {
        parts.report(claim, { type: 'not-claimed', error })
        throw error
      }
      if (verdict.kind === 'replay') answers?.remember(claim, verdict, sentAt)
    }
    const leftMs = until - clock.monotonic()
    if (verdict.kind !== 'in-progress' || leftMs <= 0 || !running.isOpen) {
      crashPoint('claim:after')
      if (verdict.kind === 'execute' && !running.isOpen) await giveBackUntouched(parts, verdict)
      return { verdict, since }
    }
    // The key was not ours then. Later tries may have taken it, also one whose answer never came, so "since" must not be later.
    since = sentAt
    await new Promise<void>((resolve) => clock.schedule(resolve, Math.min(askAgainMs, leftMs)))
  }
}

type Execution = Extract<Verdict, { kind: 'execute' }>

/** Too late to be used, but it holds the key: give it back rather than let every retry wait out the lease. */
function giveBackLate({ store }: EngineParts, verdict: Verdict): void {
  if (verdict.kind === 'execute') store.keyRelease({ lease: verdict.lease, reason: 'claimed too late' }).catch(() => {})
}

/** A process that stops begins nothing with a key that it is given then. Should even giving it back fail, its lease runs out. */
async function giveBackUntouched(parts: EngineParts, { lease }: Execution): Promise<void> {
  const { store, running, clock, storeTimeoutMs } = parts
  const release = () => store.keyRelease({ lease, reason: 'claimed by a process that was stopping' })
  await patiently(release, { until: clock.monotonic() + storeTimeoutMs, tries: claimTries }, parts).catch(() => {})
  running.assertOpen()
}
