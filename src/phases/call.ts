import { crashPoint } from '../core/crash-points.js'
import { type Duration, durationMs } from '../core/duration.js'
import { OncekeyError } from '../core/errors.js'
import type { Json } from '../core/json.js'
import { inAscii } from '../core/json-text.js'
import { derivedKey } from '../core/key.js'
import { thrownText } from '../core/thrown-text.js'
import { keyedFetch } from './keyed-fetch.js'
import type { Ledger } from './ledger.js'
import { fromResultJson, resultJson } from './result-json.js'

/** What a call is made with. */
export interface Call {
  /** For the other side's idempotency key: the same for every attempt at this life of the key. */
  readonly key: string
  /** Aborts when the key is lost or may be, or when the time is up. */
  readonly signal: AbortSignal
  /** The number of this attempt at the key. */
  readonly attempt: number
  /**
   * A fetch that sends `key` as `Idempotency-Key` with whatever may change something, and aborts with `signal`: for clients that take a fetch
   * of yours. It follows no redirects, and sends the key to one address only.
   */
  readonly fetch: typeof fetch
}

/** What the other side says about a call that may or may not have arrived. */
export type Finding<T> = { readonly as: 'happened'; readonly result: T } | { readonly as: 'did-not-happen' } | { readonly as: 'unknown' }

/** Asks the other side about a call by its derived key. */
export type LookUp<T> = (call: Pick<Call, 'key' | 'signal'>) => Promise<Finding<T>>

export interface CallOptions<T> {
  /**
   * What to do when an earlier attempt may have made this call and its outcome is unknown:
   * - `'resend'` it with the same derived key: for a side that honours keys. Costs no extra commit. The default.
   * - a function that asks the other side: for one that can be asked. Commits an intent before the call.
   * - `'park'` the key for a person: for a side that has neither. Commits an intent before the call; it is never made twice.
   */
  whenUnknown?: 'resend' | 'park' | LookUp<T>
  /**
   * For `'resend'`: how long the other side is sure to remember the key, from our last commit on. Later the key is parked instead.
   * Too long: the other side has forgotten, and does it again. Default 23 h, an hour less than what Stripe promises.
   */
  resendWithin?: Duration
  /**
   * For a look-up: how long after the intent a "did not happen" is believed; before that the first request may still be on its way.
   * Too short: it arrives after all. Too long: retries wait. Default 1 min.
   */
  settle?: Duration
  /** How long to wait for the other side. The signal aborts then, and the outcome is unknown. Default: as long as the run may take. */
  timeout?: Duration
  /**
   * What an error of the call means: `'refused'` (final: it did not happen and never will; stored, and thrown as `call_refused` by
   * every attempt), `'retry'` (it did not happen, and may be tried again), or `'unknown'`. Default: every error is `'unknown'`.
   */
  classify?: (error: unknown) => 'refused' | 'retry' | 'unknown'
}

/** One foreign state mutation, made outside of any transaction. Its result travels with the next commit. */
export async function call<Tx, T>(
  ledger: Ledger<Tx>,
  name: string,
  work: (call: Call) => Promise<T> | T,
  options: CallOptions<T> = {},
): Promise<Json<T>> {
  const { whenUnknown = 'resend', resendWithin = '23h', settle = '1m', timeout, classify = () => 'unknown' } = options
  const limits = {
    resendWithinMs: durationMs(resendWithin, 'resendWithin'),
    settleMs: durationMs(settle, 'settle'),
    timeoutMs: timeout === undefined ? null : durationMs(timeout, 'timeout'),
  }
  const { parts, claim, lease, holding } = ledger.held
  const key = derivedKey(lease.incarnation, name)

  return ledger.step(name, async (stored) => {
    if (stored?.kind === 'call') return fromResultJson<T>(stored.result)
    if (stored?.kind === 'refused') throw refused(name, stored.result)
    if (stored?.kind === 'phase') await ledger.park(`'${name}' is a call in the code, but was a phase before`, 'step_unknown')
    if (stored?.kind === 'intent' && whenUnknown !== 'resend') {
      const found = await settleIntent(whenUnknown, stored.ageMs)
      if (found) return found.result
    } else if (whenUnknown === 'resend' && lease.fence > 1 && ledger.lastCommitAgeMs() > limits.resendWithinMs) {
      await ledger.park(
        `an earlier attempt may have made the call '${name}', and the other side may have forgotten its key`,
        'key_parked',
        name,
      )
    }
    return make()
  })

  /** An earlier attempt was about to make the call. */
  async function settleIntent(ask: 'park' | LookUp<T>, ageMs: number): Promise<{ result: Json<T> } | undefined> {
    if (ask === 'park') return ledger.park(`an earlier attempt may have made the call '${name}'`, 'key_parked', name)
    ledger.assertHeld()
    const found = await ask({ key, signal: holding.signal })
    parts.report(claim, { type: 'call-looked-up', name, found: found.as })
    if (found.as === 'unknown') return ledger.park(`the other side cannot tell whether the call '${name}' took effect`, 'key_parked', name)
    if (found.as === 'happened') {
      const result = resultJson(name, found.result)
      await ledger.commit([ledger.newStep(name, 'call', result)], name)
      return { result: fromResultJson<T>(result) }
    }
    if (ageMs >= limits.settleMs) return undefined
    throw new OncekeyError(
      'call_timeout',
      `The other side has not seen the call '${name}', but it was begun only ${Math.round(ageMs / 1000)} s ago and may still arrive. ` +
        `Try again ${Math.ceil((limits.settleMs - ageMs) / 1000)} s later.`,
    )
  }

  async function make(): Promise<Json<T>> {
    // Results of earlier calls first: a crash during this call must not forget them.
    if (whenUnknown === 'resend') await ledger.commit([], ledger.uncommitted.at(-1)?.name ?? name)
    else await ledger.commit([ledger.newStep(name, 'intent', null)], `${name}?`)
    ledger.assertHeld()
    crashPoint(`call ${name}:before`)
    const startedAt = parts.clock.monotonic()
    let value: T
    try {
      value = await (parts.span ? parts.span(`oncekey.call ${name}`, { 'oncekey.step': name }, inTime) : inTime())
    } catch (error) {
      return handle(error, parts.clock.monotonic() - startedAt)
    }
    const durationMs = parts.clock.monotonic() - startedAt
    crashPoint(`call ${name}:after`)
    const result = resultJson(name, value)
    await remember('call', result)
    parts.report(claim, { type: 'call-returned', name, durationMs })
    return fromResultJson<T>(result)
  }

  /** A resent call costs no commit; one that must not be made twice is written down at once. */
  async function remember(kind: 'call' | 'refused', result: string | null): Promise<void> {
    const step = ledger.newStep(name, kind, result)
    if (whenUnknown === 'resend') ledger.uncommitted.push(step)
    else await ledger.commit([step], name)
  }

  async function handle(error: unknown, durationMs: number): Promise<never> {
    const meaning = meaningOf(error)
    if (meaning === 'refused') {
      // The other side's words, in characters that every database has.
      const result = inAscii(JSON.stringify({ message: thrownText(error) }))
      await remember('refused', result)
      parts.report(claim, { type: 'call-refused', name, durationMs, error })
      throw refused(name, result, error)
    }
    parts.report(claim, { type: 'call-failed', name, durationMs, meaning, error })
    if (meaning === 'retry') {
      if (whenUnknown !== 'resend') await ledger.commit([ledger.newStep(name, 'cleared', null)], `${name} (not made)`)
      throw error
    }
    if (whenUnknown === 'park') {
      await ledger.park(`the call '${name}' failed with an unknown outcome (${thrownText(error).slice(0, 200)})`, 'key_parked', name)
    }
    throw error
  }

  /** A classification that throws has not understood the error either. */
  function meaningOf(error: unknown): 'refused' | 'retry' | 'unknown' {
    try {
      return classify(error)
    } catch {
      return 'unknown'
    }
  }

  function callWith(signal: AbortSignal): Call {
    return { key, signal, attempt: lease.fence, fetch: keyedFetch({ name, key, signal }) }
  }

  async function inTime(): Promise<T> {
    if (limits.timeoutMs === null) return work(callWith(holding.signal))
    const timedOut = new AbortController()
    const signal = AbortSignal.any([holding.signal, timedOut.signal])
    const error = new OncekeyError('call_timeout', `The call '${name}' took longer than ${limits.timeoutMs} ms: its outcome is unknown.`)
    return new Promise<T>((resolve, reject) => {
      const cancel = parts.clock.schedule(() => {
        timedOut.abort(error)
        reject(error)
      }, limits.timeoutMs as number)
      const made = (async () => work(callWith(signal)))()
      made.then(resolve, reject).finally(cancel)
    })
  }
}

/** The same error on the first run and on every later one. */
function refused(name: string, result: string | null, cause?: unknown): OncekeyError {
  const { message } = JSON.parse(result ?? '{}') as { message?: string }
  return new OncekeyError('call_refused', `The other side refused the call '${name}' for good: ${message ?? 'no reason was given'}`, {
    cause,
  })
}
