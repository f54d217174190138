import type { Clock } from '../core/clock.js'
import type { KeyRef } from '../core/key.js'
import type { KeyClaim, Verdict } from '../core/store.js'

type Replay = Extract<Verdict, { kind: 'replay' }>

interface Entry {
  readonly replay: Replay
  /** What the request asked that was given this answer. Null: nothing was compared. */
  readonly fingerprint: Uint8Array | null
  /** On the monotonic clock, and never later than the record's own end. */
  readonly until: number
  readonly bytes: number
  /** Since it was last its turn to go. */
  wasAskedFor: boolean
}

/** What an entry weighs beside its body: its names, its fingerprint, and the objects around them. */
const overheadBytes = 1_024

/**
 * Answers that were replayed, for those who ask again. A finished answer does not change until it expires, so it may be told without the
 * store; each entry ends when the record does, by the store's own word, less the time that the word was on its way. Bounded: the oldest
 * that nobody has asked for goes first.
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

  /** The verdict on a claim, if it is known. */
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
    // What it was compared with is not known: the store has it.
    if (entry.fingerprint === null) return undefined
    const part = claim.fingerprint.differenceFrom(entry.fingerprint)
    return part ? { kind: 'mismatch', part } : given(entry.replay)
  }

  /** `sentAt`: when the store was asked, on the monotonic clock. It answered later, so the record lasts longer than this says. */
  remember(claim: KeyClaim, replay: Replay, sentAt: number): void {
    const { body, headers } = replay.answer
    const bytes = overheadBytes + body.length + headers.reduce((sum, [name, value]) => sum + name.length + value.length, 0)
    if (bytes > this.#maxBytes / 2) return
    const name = nameOf(claim)
    const before = this.#entries.get(name)
    if (before) this.#drop(name, before)
    // A copy: the fingerprint's own bytes are part of a larger buffer, which would be kept with them.
    const fingerprint = claim.fingerprint ? new Uint8Array(claim.fingerprint.bytes) : null
    this.#keep(name, { replay: kept(replay), fingerprint, until: sentAt + replay.expiresInMs, bytes, wasAskedFor: false })
    this.#makeRoom()
  }

  /** One that was asked for goes to the end instead, once: to move it whenever that happens takes longer than all the rest of a hit. */
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

/** What is given away may be changed. Its bytes go into a buffer that Node has ready, which is faster. */
const given = (replay: Replay) => withBody(replay, Buffer.from(replay.answer.body))

/** Not here: it is part of a larger one, which would be kept with it. */
const kept = (replay: Replay) => withBody(replay, new Uint8Array(replay.answer.body))

/** Spelled out: three dots are slow on Node 20. */
function withBody({ kind, state, answer, incarnation, expiresInMs }: Replay, body: Uint8Array): Replay {
  const { status, omittedBytes } = answer
  const headers = answer.headers.map(([name, value]): [string, string] => [name, value])
  const copy = omittedBytes === undefined ? { status, headers, body } : { status, headers, body, omittedBytes }
  return { kind, state, answer: copy, incarnation, expiresInMs }
}

/** No name has a NUL in it. */
const nameOf = ({ tenant, scope, key }: KeyRef) => `${tenant}\0${scope}\0${key}`
