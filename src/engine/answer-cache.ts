import type { Clock } from '../core/clock.js'
import type { KeyRef } from '../core/key.js'
import type { KeyClaim, Verdict } from '../core/store.js'

type Replay = Extract<Verdict, { kind: 'replay' }>

interface Entry {
  readonly replay: Replay
  /** The fingerprint of the request that was replayed. Null: none was compared. */
  readonly fingerprint: Uint8Array | null
  /** On the monotonic clock, and never later than the record's own expiry. */
  readonly until: number
  readonly bytes: number
  /** Since its last pass through eviction. */
  wasAskedFor: boolean
}

/** The size of an entry without its body: names, fingerprint and objects. */
const overheadBytes = 1_024

/**
 * Caches replayed answers. A finished answer does not change until it expires, so it can be replayed without the store. An entry expires
 * with its record, or earlier by the time the store took to answer. Bounded: evicts the oldest entry that was not requested since the last pass.
 */
export class AnswerCache {
  readonly #clock: Clock
  readonly #maxBytes: number
  readonly #entries = new Map<string, Entry>()
  #bytes = 0

  constructor(clock: Clock, maxBytes: number) {
    this.#clock = clock
    this.#maxBytes = maxBytes
  }

  /** The verdict on a claim, if cached. */
  find(claim: KeyClaim): Extract<Verdict, { kind: 'replay' | 'mismatch' }> | undefined {
    const name = nameOf(claim)
    const entry = this.#entries.get(name)
    if (!entry) return undefined
    if (entry.until <= this.#clock.monotonic()) {
      this.#drop(name, entry)
      return undefined
    }
    entry.wasAskedFor = true
    if (claim.fingerprint === null) return given(entry.replay)
    // No fingerprint to compare with: ask the store.
    if (entry.fingerprint === null) return undefined
    const part = claim.fingerprint.differenceFrom(entry.fingerprint)
    return part ? { kind: 'mismatch', part } : given(entry.replay)
  }

  /** `sentAt`: when the store was asked, on the monotonic clock, so the entry expires no later than the record. */
  remember(claim: KeyClaim, replay: Replay, sentAt: number): void {
    const { body, headers } = replay.answer
    const bytes = overheadBytes + body.length + headers.reduce((sum, [name, value]) => sum + name.length + value.length, 0)
    if (bytes > this.#maxBytes / 2) return
    const name = nameOf(claim)
    const before = this.#entries.get(name)
    if (before) this.#drop(name, before)
    // A copy: the fingerprint is part of a larger buffer, which would be kept with it.
    const fingerprint = claim.fingerprint ? new Uint8Array(claim.fingerprint.bytes) : null
    this.#keep(name, { replay: kept(replay), fingerprint, until: sentAt + replay.expiresInMs, bytes, wasAskedFor: false })
    this.#makeRoom()
  }

  /** Second chance: a requested entry is moved to the end here, once. Moving it at each hit would cost more than the hit. */
  #makeRoom(): void {
    for (const [name, entry] of this.#entries) {
      if (this.#bytes <= this.#maxBytes) return
      this.#drop(name, entry)
      if (!entry.wasAskedFor) continue
      entry.wasAskedFor = false
      this.#keep(name, entry)
    }
  }

  #keep(name: string, entry: Entry): void {
    this.#entries.set(name, entry)
    this.#bytes += entry.bytes
  }

  #drop(name: string, entry: Entry): void {
    this.#entries.delete(name)
    this.#bytes -= entry.bytes
  }
}

/** Callers may change it. The bytes go into Node's buffer pool, which is faster. */
const given = (replay: Replay) => withBody(replay, Buffer.from(replay.answer.body))

/** Not pooled: the entry would keep the whole pool buffer. */
const kept = (replay: Replay) => withBody(replay, new Uint8Array(replay.answer.body))

/** Spelled out: object spread is slow on Node 20. */
function withBody({ kind, state, answer, incarnation, expiresInMs }: Replay, body: Uint8Array): Replay {
  const { status, omittedBytes } = answer
  const headers = answer.headers.map(([name, value]): [string, string] => [name, value])
  const copy = omittedBytes === undefined ? { status, headers, body } : { status, headers, body, omittedBytes }
  return { kind, state, answer: copy, incarnation, expiresInMs }
}

/** Names have no NUL. */
const nameOf = ({ tenant, scope, key }: KeyRef) => `${tenant}\0${scope}\0${key}`
