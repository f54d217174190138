import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Decision, type DecisionRequest, decide, decideEnqueue } from './decision.js'
import type { FingerprintPart } from './fingerprint/fingerprint.js'
import { isExpired, type KeyRecord } from './record.js'

const now = 1_000_000
const parts: FingerprintPart[] = ['method', 'path', 'query', 'mediaType', 'body']

/** A fingerprint that says of every stored one that it differs in `part`. */
const differingIn = (part: FingerprintPart | null) => ({ bytes: Uint8Array.of(1), differenceFrom: () => part })

function aRecord(changes: Partial<KeyRecord> = {}): KeyRecord {
  return {
    ...{ id: 'id', tenant: 'tenant', scope: 'scope', key: 'key', incarnation: 'incarnation', fence: 1, owner: 'holder' },
    ...{ state: 'processing', recoveryPoint: null, afterFailure: 'rerun', async: false, attempts: 0, fingerprint: Uint8Array.of(1) },
    ...{ leaseUntil: now + 10_000, createdAt: now - 5_000, expiresAt: now + 100_000, answer: null, reason: null, request: null },
    hasRequest: false,
    ...changes,
  }
}

function aRequest(changes: Partial<DecisionRequest> = {}): DecisionRequest {
  return { owner: 'retry', fingerprint: differingIn(null), worker: false, ...changes }
}

/** Moments around `now`, with the edges often. */
const moments = fc.oneof(fc.constantFrom(now - 1, now, now + 1, 0, Number.POSITIVE_INFINITY), fc.integer({ min: 0, max: 2 * now }))

const records = fc
  .record({
    state: fc.constantFrom('pending', 'processing', 'complete', 'failed', 'parked'),
    owner: fc.constantFrom('holder', 'retry'),
    afterFailure: fc.constantFrom('rerun', 'store', 'park'),
    async: fc.boolean(),
    fingerprint: fc.option(fc.uint8Array({ maxLength: 2 })),
    leaseUntil: fc.option(moments.filter(Number.isFinite)),
    expiresAt: moments,
    fence: fc.integer({ min: 0, max: 9 }),
  })
  .map(aRecord)

const requests = fc
  .record({
    owner: fc.constantFrom('retry', 'stranger'),
    fingerprint: fc.option(fc.option(fc.constantFrom(...parts)).map(differingIn)),
    worker: fc.boolean(),
  })
  .map(aRequest)

/** "The claim" of the design, line by line: the first row whose words are true decides. */
function byTheTable(record: KeyRecord, request: DecisionRequest): Decision {
  const difference =
    record.fingerprint === null || request.fingerprint === null ? null : request.fingerprint.differenceFrom(record.fingerprint)
  const terminal = ['complete', 'failed'].includes(record.state)
  const leased = record.state === 'processing' && record.leaseUntil !== null && record.leaseUntil > now
  const abandoned = record.state === 'processing' && !leased
  const table: [boolean, Decision][] = [
    [terminal && record.expiresAt <= now && !request.worker, { do: 'recreate' }],
    [difference !== null, { do: 'report-mismatch', part: difference as FingerprintPart }],
    [terminal, { do: 'replay' }],
    [record.state === 'parked', { do: 'report-parked' }],
    [leased && record.owner === request.owner, { do: 'recognise' }],
    [leased, { do: 'report-in-progress', retryAfterMs: (record.leaseUntil ?? 0) - now }],
    [record.async && !request.worker, { do: 'report-in-progress', retryAfterMs: 0 }],
    [abandoned && record.afterFailure === 'store', { do: 'settle', as: 'failed' }],
    [abandoned && record.afterFailure === 'park', { do: 'settle', as: 'parked' }],
    [true, { do: 'take-over' }],
  ]
  return (table.find(([applies]) => applies) as [boolean, Decision])[1]
}

describe('decide', () => {
  test('lets a worker begin nothing: neither a key that is forgotten, nor a new life of one that has expired', () => {
    const worker = aRequest({ worker: true })
    expect(decide(undefined, worker, now)).toEqual({ do: 'report-in-progress', retryAfterMs: 0 })
    expect(decide(aRecord({ state: 'complete', expiresAt: now - 1 }), worker, now)).toEqual({ do: 'replay' })
  })

  test('creates a key that nobody knows', () => {
    expect(decide(undefined, aRequest(), now)).toEqual({ do: 'create' })
  })

  test('follows the table of the design', () => {
    fc.assert(
      fc.property(records, requests, (record, request) => {
        expect(decide(record, request, now)).toEqual(byTheTable(record, request))
      }),
      { numRuns: 5_000 },
    )
  })

  test('never lets a parked key run, expire or be replayed', () => {
    fc.assert(
      fc.property(records, requests, (record, request) => {
        expect(['report-parked', 'report-mismatch']).toContain(decide({ ...record, state: 'parked' }, request, now).do)
      }),
    )
  })

  test('never lets an unfinished key expire', () => {
    fc.assert(
      fc.property(records, requests, fc.constantFrom('pending' as const, 'processing' as const), (record, request, state) => {
        expect(['create', 'recreate', 'replay']).not.toContain(decide({ ...record, state, expiresAt: 0 }, request, now).do)
      }),
    )
  })

  test('never gives a key away while its lease is live, but to its own claim', () => {
    fc.assert(
      fc.property(records, requests, fc.integer({ min: 1, max: 100_000 }), (record, request, left) => {
        const decision = decide({ ...record, state: 'processing', leaseUntil: now + left }, request, now)
        if (decision.do === 'recognise') expect(record.owner).toBe(request.owner)
        else expect(['report-mismatch', 'report-in-progress']).toContain(decision.do)
      }),
    )
  })

  test('reads the record and changes nothing in it', () => {
    fc.assert(
      fc.property(records, requests, (record, request) => {
        expect(decide(Object.freeze(record), Object.freeze(request), now)).toEqual(decide(record, request, now))
      }),
    )
  })

  test('ends a lease at its very moment', () => {
    expect(decide(aRecord({ leaseUntil: now + 1 }), aRequest(), now)).toEqual({ do: 'report-in-progress', retryAfterMs: 1 })
    expect(decide(aRecord({ leaseUntil: now }), aRequest(), now)).toEqual({ do: 'take-over' })
  })

  test('names the part that differs, in flight and finished', () => {
    for (const state of ['pending', 'processing', 'complete', 'failed', 'parked'] as const) {
      const decision = decide(aRecord({ state }), aRequest({ fingerprint: differingIn('body') }), now)
      expect(decision).toEqual({ do: 'report-mismatch', part: 'body' })
    }
  })

  test('hands the stored bytes to the comparison', () => {
    const stored = Uint8Array.of(7, 7)
    const fingerprint = { bytes: Uint8Array.of(1), differenceFrom: (bytes: Uint8Array) => (bytes === stored ? 'query' : null) } as const
    expect(decide(aRecord({ fingerprint: stored }), aRequest({ fingerprint }), now)).toEqual({ do: 'report-mismatch', part: 'query' })
  })

  test('lets a worker run an async key, and nobody else', () => {
    const record = aRecord({ async: true, state: 'pending', leaseUntil: null })
    expect(decide(record, aRequest({ worker: true }), now)).toEqual({ do: 'take-over' })
    expect(decide(record, aRequest(), now)).toEqual({ do: 'report-in-progress', retryAfterMs: 0 })
  })

  test('settles what was abandoned but not what was released', () => {
    const released = aRecord({ state: 'pending', leaseUntil: null, afterFailure: 'park' })
    expect(decide(released, aRequest(), now)).toEqual({ do: 'take-over' })
    expect(decide({ ...released, state: 'processing', leaseUntil: now - 1 }, aRequest(), now)).toEqual({ do: 'settle', as: 'parked' })
  })
})

describe('decideEnqueue', () => {
  const own = aRecord({ async: true, state: 'pending', fence: 0, owner: 'retry', leaseUntil: null })

  test('creates a key that nobody knows', () => {
    expect(decideEnqueue(undefined, aRequest(), now)).toEqual({ do: 'create' })
  })

  test('says of every known key what a claim by a stranger says, but takes nothing over', () => {
    fc.assert(
      fc.property(records, requests, (record, request) => {
        const byStranger = decide(record, { ...request, owner: 'nobody', worker: false }, now)
        const expected = byStranger.do === 'take-over' ? { do: 'report-in-progress', retryAfterMs: 0 } : byStranger
        const isOwn = record.async && record.state === 'pending' && record.fence === 0 && record.owner === request.owner
        const decision = decideEnqueue(record, request, now)
        expect(decision).toEqual(isOwn && expected.do === 'report-in-progress' ? { do: 'recognise' } : expected)
      }),
      { numRuns: 2_000 },
    )
  })

  test('recognises a key of its own that nobody has held yet, and no other', () => {
    expect(decideEnqueue(own, aRequest(), now)).toEqual({ do: 'recognise' })
    const inProgress = { do: 'report-in-progress', retryAfterMs: 0 }
    for (const changes of [{ owner: 'stranger' }, { fence: 1 }, { async: false }] satisfies Partial<KeyRecord>[]) {
      expect(decideEnqueue({ ...own, ...changes }, aRequest(), now)).toEqual(inProgress)
    }
    expect(decideEnqueue({ ...own, state: 'processing', leaseUntil: now + 5 }, aRequest(), now)).toEqual({ ...inProgress, retryAfterMs: 5 })
    expect(decideEnqueue({ ...own, state: 'complete' }, aRequest(), now)).toEqual({ do: 'replay' })
    expect(decideEnqueue(own, aRequest({ fingerprint: differingIn('body') }), now)).toEqual({ do: 'report-mismatch', part: 'body' })
  })
})

describe('isExpired', () => {
  test('is true of a complete or failed key from its very moment on', () => {
    for (const state of ['complete', 'failed'] as const) {
      expect(isExpired({ state, expiresAt: now + 1 }, now)).toBe(false)
      expect(isExpired({ state, expiresAt: now }, now)).toBe(true)
      expect(isExpired({ state, expiresAt: Number.POSITIVE_INFINITY }, now)).toBe(false)
    }
  })

  test('is false of all others', () => {
    for (const state of ['pending', 'processing', 'parked'] as const) expect(isExpired({ state, expiresAt: 0 }, now)).toBe(false)
  })
})
