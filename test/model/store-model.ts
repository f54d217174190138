import { strict as assert } from 'node:assert'
import type { AsyncCommand } from 'fast-check'
import type { EnqueueVerdict, KeyStore, Store } from '../../src/core/store.js'
import type { AfterFailure, KeyClaim, Lease, Verdict } from '../../src/index.js'
import type { StoreHarness } from '../../src/testing/index.js'
import { aClaim, anAnswer, fingerprintOf, leaseMs, oneDay } from '../../src/testing/store-cases/store-case.js'

/**
 * What must be true of a key whatever happens to it, written down once more and differently from `decide()`: as a history.
 * The model does not predict rows; it knows who may hold, and what has been promised to whom.
 */
export interface Model {
  now: number
  keys: Map<string, KeyModel>
}

interface KeyModel {
  /** All leases ever given, the newest last. */
  leases: { lease: Lease; until: number }[]
  state: 'processing' | 'pending' | 'complete' | 'failed' | 'parked' | 'reaped'
  /** True if the state is the newest holder's own doing, which it may repeat. */
  settledByHolder: boolean
  afterFailure: AfterFailure
  /** Left to workers: nobody else may hold it. */
  async: boolean
  /** The token of an enqueue that nobody has held yet. */
  enqueuedBy: string | null
  body: number
  status: number | null
  createdAt: number
  expiresAt: number
}

export interface Real {
  harness: { store: KeyStore & Pick<Store, 'upkeep'>; advance: StoreHarness['advance'] }
  tenant: string
}

type Command = AsyncCommand<Model, Real>

function newest({ leases }: KeyModel) {
  return leases[leases.length - 1] as { lease: Lease; until: number }
}

function isExpired(key: KeyModel, now: number): boolean {
  return (key.state === 'complete' || key.state === 'failed') && key.expiresAt <= now
}

/** Nothing is left of the key but old leases, whose holders may still be frozen somewhere. */
function isForgotten(key: KeyModel | undefined, now: number): boolean {
  return !key || key.state === 'reaped' || isExpired(key, now)
}

/** Times at which model and store could disagree by the milliseconds that a statement takes are not asked about. */
const slackMs = 60_000
function near(a: number, b: number): boolean {
  return Math.abs(a - b) < slackMs
}

export class Claim implements Command {
  constructor(
    readonly key: string,
    readonly body: number,
    readonly afterFailure: AfterFailure,
    readonly worker = false,
  ) {}

  check({ keys, now }: Readonly<Model>): boolean {
    const known = keys.get(this.key)
    if (!known) return true
    return !(known.state === 'processing' && near(newest(known).until, now)) && !near(known.expiresAt, now)
  }

  async run(model: Model, { harness: { store }, tenant }: Real): Promise<void> {
    const claim: KeyClaim = aClaim({
      tenant,
      key: this.key,
      fingerprint: fingerprintOf(this.body),
      afterFailure: this.afterFailure,
      worker: this.worker,
    })
    const verdict = await store.keyClaim(claim)
    const known = model.keys.get(this.key)
    if (this.worker && (!known || isForgotten(known, model.now))) {
      // Whether it is still there or not: a worker begins nothing.
      assert.notEqual(verdict.kind, 'execute')
      return
    }
    assert.equal(verdict.kind, this.expected(known, model.now))
    this.follow(model, known, claim, verdict)
  }

  expected(known: KeyModel | undefined, now: number): Verdict['kind'] {
    if (!known || isForgotten(known, now)) return 'execute'
    if (known.body !== this.body) return 'mismatch'
    if (known.state === 'complete' || known.state === 'failed') return 'replay'
    if (known.state === 'parked') return 'parked'
    if (known.state === 'processing' && newest(known).until > now) return 'in-progress'
    if (known.async && !this.worker) return 'in-progress'
    if (known.state === 'pending') return 'execute'
    return ({ rerun: 'execute', store: 'replay', park: 'parked' } as const)[known.afterFailure]
  }

  follow(model: Model, known: KeyModel | undefined, claim: KeyClaim, verdict: Verdict): void {
    const { now } = model
    if (verdict.kind === 'execute') {
      const fresh = !known || isForgotten(known, now)
      const { lease } = verdict
      assert.equal(lease.owner, claim.owner)
      // What was enqueued and never held has a life already, but no holder before this one.
      const first = fresh || known.enqueuedBy !== null
      assert.equal(lease.fence, first ? 1 : newest(known).lease.fence + 1)
      assert.equal(verdict.takenOver, !first)
      if (known?.enqueuedBy && !fresh) assert.equal(lease.incarnation, known.enqueuedBy)
      else if (fresh)
        assert.ok(!known?.leases.some((old) => old.lease.incarnation === lease.incarnation), 'a new life has a new incarnation')
      else assert.equal(lease.incarnation, newest(known).lease.incarnation)
      const leases = [...(known?.leases ?? []), { lease, until: now + leaseMs }]
      model.keys.set(this.key, {
        ...(fresh || !known
          ? { createdAt: now, expiresAt: now + oneDay.ms, afterFailure: this.afterFailure, body: this.body, async: false }
          : known),
        enqueuedBy: null,
        state: 'processing',
        settledByHolder: false,
        status: null,
        leases,
      })
    } else if (known?.state === 'processing' && (verdict.kind === 'replay' || verdict.kind === 'parked')) {
      // The holder was gone, and this claim settled the key: nobody holds it any more.
      known.state = verdict.kind === 'replay' ? 'failed' : 'parked'
      known.status = 500
      known.expiresAt = Math.max(known.createdAt + oneDay.ms, now + oneDay.floorMs)
    }
    if (verdict.kind === 'replay') assert.equal(verdict.answer.status, known?.status)
  }

  toString = () => `claim(${this.key}, body ${this.body}, ${this.afterFailure}${this.worker ? ', worker' : ''})`
}

/** A request that is left to workers, and once more with the same token, as if its acknowledgement had been lost. */
export class Enqueue implements Command {
  constructor(
    readonly key: string,
    readonly body: number,
  ) {}

  check({ keys, now }: Readonly<Model>): boolean {
    const known = keys.get(this.key)
    if (!known) return true
    return !(known.state === 'processing' && near(newest(known).until, now)) && !near(known.expiresAt, now)
  }

  async run(model: Model, { harness: { store }, tenant }: Real): Promise<void> {
    const claim = aClaim({ tenant, key: this.key, fingerprint: fingerprintOf(this.body) })
    const known = model.keys.get(this.key)
    const expected = this.expected(known, model.now)
    const verdict = await store.keyEnqueue(claim)
    assert.equal(verdict.kind, expected)
    assert.equal((await store.keyEnqueue(claim)).kind, expected)
    if (verdict.kind === 'enqueued') {
      assert.ok(!known?.leases.some(({ lease }) => lease.incarnation === claim.owner))
      model.keys.set(this.key, {
        ...{ createdAt: model.now, expiresAt: model.now + oneDay.ms, afterFailure: 'rerun', body: this.body, async: true },
        ...{ enqueuedBy: claim.owner, state: 'pending', settledByHolder: false, status: null, leases: known?.leases ?? [] },
      })
    } else if (known?.state === 'processing' && (verdict.kind === 'replay' || verdict.kind === 'parked')) {
      known.state = verdict.kind === 'replay' ? 'failed' : 'parked'
      known.status = 500
      known.expiresAt = Math.max(known.createdAt + oneDay.ms, model.now + oneDay.floorMs)
    }
    if (verdict.kind === 'replay') assert.equal(verdict.answer.status, known?.status)
  }

  expected(known: KeyModel | undefined, now: number): EnqueueVerdict['kind'] {
    if (!known || isForgotten(known, now)) return 'enqueued'
    if (known.body !== this.body) return 'mismatch'
    if (known.state === 'complete' || known.state === 'failed') return 'replay'
    if (known.state === 'parked') return 'parked'
    const abandoned = known.state === 'processing' && newest(known).until <= now
    if (!abandoned || known.async) return 'in-progress'
    return ({ rerun: 'in-progress', store: 'replay', park: 'parked' } as const)[known.afterFailure]
  }

  toString = () => `enqueue(${this.key}, body ${this.body})`
}

export class Write implements Command {
  constructor(
    readonly verb: 'finish' | 'release' | 'park' | 'heartbeat',
    readonly key: string,
    /** Which of the key's leases: 0 is the newest, higher ones are zombies. */
    readonly age: number,
    readonly status: number,
  ) {}

  check({ keys }: Readonly<Model>): boolean {
    return (keys.get(this.key)?.leases.length ?? 0) > this.age
  }

  async run(model: Model, { harness: { store } }: Real): Promise<void> {
    const key = model.keys.get(this.key) as KeyModel
    const { lease } = key.leases[key.leases.length - 1 - this.age] as { lease: Lease }
    const holds = this.age === 0 && key.state === 'processing'
    // A store that looks after itself has no expired keys, and does not know a write on one again.
    if (!store.upkeep && isExpired(key, model.now)) return
    const answer = { ...anAnswer, status: this.status }
    switch (this.verb) {
      case 'heartbeat': {
        const [standing] = await store.keyHeartbeat({ leases: [{ ...lease, leaseMs }] })
        assert.equal(standing, holds ? 'renewed' : 'lost')
        if (holds) newest(key).until = model.now + leaseMs
        return
      }
      case 'finish': {
        const result = await store.keyFinish({ lease, state: 'complete', answer, retention: oneDay })
        if (!this.expect(result, holds, key, 'complete')) return
        key.status = this.status
        key.expiresAt = Math.max(key.createdAt + oneDay.ms, model.now + oneDay.floorMs)
        return
      }
      case 'release':
        this.expect(await store.keyRelease({ lease }), holds, key, 'pending')
        return
      case 'park':
        if (this.expect(await store.keyPark({ lease, answer, reason: 'model' }), holds, key, 'parked')) key.status = this.status
    }
  }

  /** Only the holder's write changes anything; the same write again by the one that made it counts as done. */
  expect(result: 'done' | 'lost', holds: boolean, key: KeyModel, state: KeyModel['state']): boolean {
    const repeated = this.age === 0 && key.state === state && key.settledByHolder
    assert.equal(result, holds || repeated ? 'done' : 'lost')
    if (!holds) return false
    key.state = state
    key.settledByHolder = true
    return true
  }

  toString = () => `${this.verb}(${this.key}, lease -${this.age})`
}

export class Advance implements Command {
  constructor(readonly ms: number) {}
  check = () => true

  async run(model: Model, { harness }: Real): Promise<void> {
    await harness.advance(this.ms)
    model.now += this.ms
  }

  toString = () => `advance(${this.ms} ms)`
}

export class Reap implements Command {
  check = ({ keys, now }: Readonly<Model>) => ![...keys.values()].some(({ expiresAt }) => near(expiresAt, now))

  async run(model: Model, { harness: { store }, tenant }: Real): Promise<void> {
    while ((await store.keyReap({ limit: 100 })) > 0);
    for (const [key, known] of model.keys) {
      const record = await store.keyRead({ tenant, scope: 'orders.create', key })
      const gone = isForgotten(known, model.now)
      assert.equal(record === undefined, gone, `${key} is ${known.state}`)
      if (gone) known.state = 'reaped'
    }
  }

  toString = () => 'reap'
}
