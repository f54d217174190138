import { OncekeyError } from '../core/errors.js'
import type { KeyRef } from '../core/key.js'
import type { Lease } from '../core/record.js'
import type { KeyStore } from '../core/store.js'
import type { Report } from './events.js'
import { type PatienceParts, patiently } from './patience.js'

export interface HoldOptions {
  readonly lease: Lease
  readonly leaseMs: number
  readonly maxRunMs: number
  /** When the claim was sent, on the monotonic clock: the lease cannot have begun earlier. */
  readonly since: number
}

/** A lease with heartbeats. */
export interface Holding {
  /** Aborts when the lease is lost or in doubt, or at `maxRun`. */
  readonly signal: AbortSignal
  readonly isAborted: boolean
  /** Calls back on abort, for less than a signal costs. */
  onAbort(listener: (reason: OncekeyError) => void): void
  /** Until when the lease is certain, on the monotonic clock. */
  certainUntil(): number
  /** The rest of `maxRun`. */
  leftMs(): number
  /** True once another holder has the key, or this one has given it up. */
  isLost(): boolean
  /** Reports the loss, once. */
  tellLost(): void
  /** The last write has started: from now on a heartbeat may find nothing to renew because of it. */
  ending(): void
  /** Takes the key from running work at shutdown: aborts it, and nothing more of it is stored. */
  giveUp(reason: OncekeyError): void
  /** Stops the heartbeats. */
  letGo(): void
}

/** Most runs have at most one listener: no growable list needed. */
const none: readonly never[] = []

interface Keeper {
  now(): number
  tellLost(held: Held): void
  letGo(held: Held): void
}

/** The state of one lease. Each request has one, so rarely used values are built lazily. */
class Held implements Holding {
  readonly lease: Lease
  readonly leaseMs: number
  readonly maxRunMs: number
  readonly since: number
  confirmedUntil: number
  standing: 'held' | 'lost' | 'expired' = 'held'
  isEnding = false
  renewing = false
  lossTold = false
  readonly #keeper: Keeper
  #reason: OncekeyError | undefined
  #controller: AbortController | undefined
  #listeners: readonly ((reason: OncekeyError) => void)[] = none

  constructor(
    readonly ref: KeyRef,
    { lease, leaseMs, maxRunMs, since }: HoldOptions,
    keeper: Keeper,
  ) {
    this.lease = lease
    this.leaseMs = leaseMs
    this.maxRunMs = maxRunMs
    this.since = since
    this.confirmedUntil = since + leaseMs
    this.#keeper = keeper
  }

  /** Lazy: a signal costs 2 µs, and listening to one 5 µs more. */
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#reason) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  get isAborted(): boolean {
    return this.#reason !== undefined
  }

  /** When its next beat is due. */
  beatInMs(now: number): number {
    if (this.standing !== 'held') return Number.POSITIVE_INFINITY
    const doubtAt = this.isAborted ? Number.POSITIVE_INFINITY : this.confirmedUntil
    return Math.min(this.leaseMs / beatsPerLease, Math.max(1, Math.min(this.since + this.maxRunMs, doubtAt) - now))
  }

  /** Only the first reason counts. */
  abort(reason: OncekeyError): void {
    if (this.#reason) return
    this.#reason = reason
    this.#controller?.abort(reason)
    for (const listener of this.#listeners) listener(reason)
  }

  onAbort(listener: (reason: OncekeyError) => void): void {
    if (this.#reason) listener(this.#reason)
    else this.#listeners = this.#listeners === none ? [listener] : [...this.#listeners, listener]
  }

  certainUntil(): number {
    return this.confirmedUntil
  }

  leftMs(): number {
    return Math.max(1, this.since + this.maxRunMs - this.#keeper.now())
  }

  isLost(): boolean {
    return this.standing === 'lost'
  }

  tellLost(): void {
    this.#keeper.tellLost(this)
  }

  ending(): void {
    this.isEnding = true
  }

  giveUp(reason: OncekeyError): void {
    this.standing = 'lost'
    // The caller reports it.
    this.lossTold = true
    this.abort(reason)
  }

  letGo(): void {
    this.#keeper.letGo(this)
  }
}

/** A lease is renewed three times before it expires: one heartbeat may fail. */
const beatsPerLease = 3

/** A timer may fire so much early. At the end of `maxRun` another heartbeat would renew the lease once more. */
const timerMs = 1

export interface LeaseKeeperParts extends PatienceParts {
  readonly store: Pick<KeyStore, 'keyHeartbeat'>
  readonly report: Report
  /** Calls its argument outside the context of any request. Default: just calls it. */
  readonly apart?: ((work: () => void) => void) | undefined
}

/**
 * Renews the leases of all running work in this process, with one statement. The store's fence decides who holds a key; this
 * only aborts work early rather than late.
 */
export class LeaseKeeper {
  readonly #parts: LeaseKeeperParts
  readonly #held = new Set<Held>()
  #cancelBeat: () => void = () => {}
  #nextBeatAt = Number.POSITIVE_INFINITY
  /** What a lease needs of its keeper. */
  readonly #ofHeld: Keeper = {
    now: () => this.#parts.clock.monotonic(),
    tellLost: (held: Held) => this.#tellLost(held),
    letGo: (held: Held) => {
      this.#held.delete(held)
      if (this.#held.size === 0) this.#planBeatForAll()
    },
  }

  constructor(parts: LeaseKeeperParts) {
    this.#parts = parts
  }

  hold(ref: KeyRef, options: HoldOptions): Holding {
    const held = new Held(ref, options, this.#ofHeld)
    this.#held.add(held)
    const now = this.#parts.clock.monotonic()
    this.#planBeat(now, held.beatInMs(now))
    return held
  }

  /** Plans the next beat for all leases. */
  #planBeatForAll(): void {
    const now = this.#parts.clock.monotonic()
    let delayMs = Number.POSITIVE_INFINITY
    for (const held of this.#held) delayMs = Math.min(delayMs, held.beatInMs(now))
    this.#planBeat(now, delayMs)
  }

  /** Never later than already planned. */
  #planBeat(now: number, delayMs: number): void {
    const { clock, apart } = this.#parts
    if (this.#held.size > 0 && now + delayMs >= this.#nextBeatAt) return
    this.#cancelBeat()
    this.#nextBeatAt = now + delayMs
    if (delayMs === Number.POSITIVE_INFINITY) return
    const schedule = () => {
      this.#cancelBeat = clock.schedule(
        () => {
          this.#nextBeatAt = Number.POSITIVE_INFINITY
          this.#beat()
        },
        delayMs,
        { background: true },
      )
    }
    if (apart) apart(schedule)
    else schedule()
  }

  #beat(): void {
    const now = this.#parts.clock.monotonic()
    for (const held of this.#held) this.#watch(held, now)
    // Not awaited: a hanging heartbeat must not stop the time checks.
    void this.#renew([...this.#held].filter(({ standing, renewing }) => standing === 'held' && !renewing))
    this.#planBeatForAll()
  }

  #watch(held: Held, now: number): void {
    if (held.standing !== 'held') return
    if (now + timerMs >= held.since + held.maxRunMs) {
      held.standing = 'expired'
      const message = `The work ran longer than maxRun (${held.maxRunMs} ms): its lease is no longer renewed, and others may take the key over.`
      this.#tellToStop(held, 'max-run-exceeded', new OncekeyError('max_run_exceeded', message))
    } else if (now >= held.confirmedUntil && !held.isAborted) {
      const message = 'No heartbeat was confirmed in time, so another holder may have the key: stop before the next side effect.'
      this.#tellToStop(held, 'lease-in-doubt', new OncekeyError('lease_lost', message))
    }
  }

  async #renew(leases: readonly Held[]): Promise<void> {
    if (leases.length === 0) return
    for (const held of leases) held.renewing = true
    const { store, clock, report } = this.#parts
    const sentAt = clock.monotonic()
    // Time out early enough for another try within the lease: the connection may be dead.
    const until = sentAt + Math.min(...leases.map(({ leaseMs }) => leaseMs)) / beatsPerLease
    try {
      const renewals = leases.map(({ lease, leaseMs }) => ({ ...lease, leaseMs }))
      const standings = await patiently((limit) => store.keyHeartbeat({ leases: renewals }, limit), { until, tries: 1 }, this.#parts)
      for (const [index, held] of leases.entries()) {
        // Finished meanwhile: its "lost" is its own finish.
        if (!this.#held.has(held)) continue
        if (standings[index] === 'renewed') held.confirmedUntil = sentAt + held.leaseMs
        if (standings[index] === 'lost' && !held.isEnding) this.#lose(held)
      }
    } catch (error) {
      for (const { ref } of leases) report(ref, { type: 'heartbeat-failed', error })
    } finally {
      for (const held of leases) held.renewing = false
    }
  }

  #lose(held: Held): void {
    held.standing = 'lost'
    this.#tellLost(held)
    held.abort(leaseLost())
  }

  #tellLost(held: Held): void {
    if (held.lossTold) return
    held.lossTold = true
    this.#parts.report(held.ref, { type: 'lease-lost' })
  }

  #tellToStop(held: Held, type: 'lease-in-doubt' | 'max-run-exceeded', reason: OncekeyError): void {
    this.#parts.report(held.ref, { type })
    held.abort(reason)
  }
}

export function leaseLost(): OncekeyError {
  return new OncekeyError(
    'lease_lost',
    'Another holder has taken this key over, so nothing of this attempt was stored. Retry to get the answer.',
  )
}
