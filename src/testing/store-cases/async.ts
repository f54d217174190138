import assert from 'node:assert/strict'
import { isOncekeyError } from '../../core/errors.js'
import { keyId } from '../../core/key.js'
import type { KeyClaim, KeyStore } from '../../core/store.js'
import {
  aClaim,
  aFinish,
  again,
  anAnswer,
  assertReplays,
  assertSameAnswer,
  fingerprintOf,
  hour,
  leaseMs,
  type StoreCase,
  second,
  take,
} from './store-case.js'

const request = new Uint8Array([0, 1, 2, 254, 255])

/** Enqueues a new key. */
async function enqueue(store: KeyStore, claim: KeyClaim): Promise<void> {
  assert.deepEqual(await store.keyEnqueue(claim), { kind: 'enqueued', id: keyId(claim) })
}

/** A worker's claim: without a request, and comparing nothing. */
const worker = (claim: KeyClaim) => again(claim, { worker: true, fingerprint: null, request: null })

/** Enqueued requests, and keys read by their ids. */
export const asyncCases: StoreCase[] = [
  {
    name: 'enqueue: keeps a new key for workers: pending, never held, with its request',
    async run({ store }) {
      const claim = aClaim({ request })
      await enqueue(store, claim)
      const record = await store.keyRead(claim)
      assert.deepEqual(
        [record?.state, record?.async, record?.fence, record?.attempts, record?.owner, record?.incarnation, record?.leaseUntil],
        ['pending', true, 0, 0, claim.owner, claim.owner, null],
      )
      assert.deepEqual([[...(record?.request ?? [])], record?.answer, record?.recoveryPoint], [[...request], null, null])
      assert.equal((await store.keyRead(claim, undefined, { request: false }))?.hasRequest, true)
      const without = aClaim({ request: null })
      await take(store, without)
      assert.equal((await store.keyRead(without))?.hasRequest, false)
    },
  },
  {
    name: 'enqueue: has one winner among thirty at once; the others hear that it is in progress',
    async run({ store }) {
      const claim = aClaim({ request })
      const verdicts = await Promise.all(Array.from({ length: 30 }, () => store.keyEnqueue(again(claim))))
      assert.equal(verdicts.filter(({ kind }) => kind === 'enqueued').length, 1)
      assert.equal(verdicts.filter(({ kind }) => kind === 'in-progress').length, 29)
      assert.deepEqual(await store.keyEnqueue(again(claim)), { kind: 'in-progress', retryAfterMs: 0 })
      assert.equal((await store.keyRead(claim))?.fence, 0)
    },
  },
  {
    name: 'enqueue: one of twenty claims and twenty enqueues at once has the key',
    async run({ store }) {
      const claim = aClaim()
      const both = Array.from({ length: 20 }, () => [store.keyClaim(again(claim)), store.keyEnqueue(again(claim))]).flat()
      const kinds = (await Promise.all(both)).map(({ kind }) => kind)
      assert.equal(kinds.filter((kind) => kind === 'execute' || kind === 'enqueued').length, 1)
      assert.equal(kinds.filter((kind) => kind === 'in-progress').length, 39)
    },
  },
  {
    name: 'enqueue: recognises itself when its acknowledgement was lost, until a worker has come',
    async run({ store }) {
      const claim = aClaim()
      await enqueue(store, claim)
      await enqueue(store, claim)
      assert.equal((await store.keyEnqueue(again(claim))).kind, 'in-progress')
      await take(store, worker(claim))
      assert.equal((await store.keyEnqueue(claim)).kind, 'in-progress')
    },
  },
  {
    name: 'enqueue: only workers execute the key; to all others it is in progress',
    async run({ store }) {
      const claim = aClaim()
      await enqueue(store, claim)
      for (const other of [claim, again(claim)]) {
        assert.deepEqual(await store.keyClaim(other), { kind: 'in-progress', retryAfterMs: 0 })
        assert.deepEqual(await store.keyPeek(other), { kind: 'in-progress', retryAfterMs: 0 })
      }
      assert.equal(await store.keyPeek(worker(claim)), undefined)
      assert.equal((await store.keyRead(claim))?.fence, 0)
    },
  },
  {
    name: 'enqueue: the first worker begins attempt 1, which took nothing over, with the stored request',
    async run({ store }) {
      const claim = aClaim({ request })
      await enqueue(store, claim)
      const taker = worker(claim)
      const held = await take(store, taker)
      assert.deepEqual(held.lease, { tenant: claim.tenant, id: keyId(claim), incarnation: claim.owner, fence: 1, owner: taker.owner })
      assert.deepEqual([held.takenOver, held.recoveryPoint, held.attempts, [...(held.request ?? [])]], [false, null, 1, [...request]])
      const met = await store.keyEnqueue(again(claim))
      assert.ok(met.kind === 'in-progress' && met.retryAfterMs > 0 && met.retryAfterMs <= leaseMs)
    },
  },
  {
    name: 'enqueue: a worker that is gone is replaced by another worker only, and cannot write any more',
    async run({ store, advance }) {
      const claim = aClaim()
      await enqueue(store, claim)
      const gone = await take(store, worker(claim))
      await advance(leaseMs + 1)
      assert.deepEqual(await store.keyClaim(again(claim)), { kind: 'in-progress', retryAfterMs: 0 })
      assert.deepEqual(await store.keyEnqueue(again(claim)), { kind: 'in-progress', retryAfterMs: 0 })
      const next = await take(store, worker(claim))
      assert.deepEqual([next.lease.fence, next.takenOver, next.attempts], [2, true, 2])
      assert.equal(await store.keyFinish(aFinish(gone)), 'lost')
      assert.equal(await store.keyFinish(aFinish(next)), 'done')
      await assertReplays(store, claim)
    },
  },
  {
    name: 'enqueue: a key that a worker gave back waits for a worker again',
    async run({ store }) {
      const claim = aClaim()
      await enqueue(store, claim)
      await store.keyRelease({ lease: (await take(store, worker(claim))).lease })
      // It was held by now, so it is no fresh enqueue.
      for (const other of [claim, again(claim)]) {
        assert.deepEqual(await store.keyEnqueue(other), { kind: 'in-progress', retryAfterMs: 0 })
        assert.equal((await store.keyClaim(other)).kind, 'in-progress')
      }
      assert.equal((await take(store, worker(claim))).lease.fence, 2)
    },
  },
  {
    name: 'enqueue: a known key replays, mismatches or is parked, as for a claim',
    async run({ store }) {
      const other = { fingerprint: fingerprintOf({ amount: 999 }) }
      const claim = aClaim()
      await enqueue(store, claim)
      assert.deepEqual(await store.keyEnqueue(again(claim, other)), { kind: 'mismatch', part: 'body' })
      await store.keyFinish(aFinish(await take(store, worker(claim))))
      assert.deepEqual(await store.keyEnqueue(again(claim, other)), { kind: 'mismatch', part: 'body' })
      // Its own retry too: its enqueue is done.
      for (const retry of [claim, again(claim)]) {
        const verdict = await store.keyEnqueue(retry)
        assert.deepEqual([verdict.kind, verdict.kind === 'replay' && verdict.incarnation], ['replay', claim.owner])
        assertSameAnswer(verdict.kind === 'replay' ? verdict.answer : null, anAnswer)
      }

      const parked = aClaim()
      await enqueue(store, parked)
      await store.keyPark({ lease: (await take(store, worker(parked))).lease, answer: anAnswer, reason: 'a test' })
      const verdict = await store.keyEnqueue(again(parked))
      assertSameAnswer(verdict.kind === 'parked' ? verdict.answer : null, anAnswer)
    },
  },
  {
    name: 'enqueue: leaves a key alone that was claimed otherwise, held or free',
    async run({ store, advance }) {
      const claim = aClaim()
      const { lease } = await take(store, claim)
      const met = await store.keyEnqueue(again(claim))
      assert.ok(met.kind === 'in-progress' && met.retryAfterMs > 0)
      await advance(leaseMs + 1)
      assert.deepEqual(await store.keyEnqueue(again(claim)), { kind: 'in-progress', retryAfterMs: 0 })
      await store.keyRelease({ lease })
      assert.deepEqual(await store.keyEnqueue(again(claim)), { kind: 'in-progress', retryAfterMs: 0 })
      const record = await store.keyRead(claim)
      assert.deepEqual([record?.async, record?.fence, record?.owner], [false, 1, claim.owner])
      assert.equal((await take(store, again(claim))).lease.fence, 2)
    },
  },
  {
    name: 'enqueue: ends a key whose holder is gone and whose work must not run again, as a claim does',
    async run({ store, advance }) {
      for (const [afterFailure, kind] of [
        ['store', 'replay'],
        ['park', 'parked'],
      ] as const) {
        const claim = aClaim({ afterFailure })
        await take(store, claim)
        await advance(leaseMs + 1)
        const verdict = await store.keyEnqueue(again(claim))
        assert.deepEqual([verdict.kind, 'settled' in verdict && verdict.settled], [kind, true])
        assert.equal((await store.keyEnqueue(again(claim))).kind, kind)
      }
    },
  },
  {
    name: 'enqueue: begins a new life of an expired key, and nothing of the old one stays',
    async run({ store, advance }) {
      const claim = aClaim({ request: new Uint8Array([7]) })
      await store.keyFinish(aFinish(await take(store, claim)))
      await advance(25 * hour)
      const next = again(claim, { fingerprint: fingerprintOf('another'), request })
      await enqueue(store, next)
      const record = await store.keyRead(claim)
      assert.deepEqual(
        [record?.state, record?.async, record?.fence, record?.incarnation, record?.answer, [...(record?.request ?? [])]],
        ['pending', true, 0, next.owner, null, [...request]],
      )
      await store.keyFinish(aFinish(await take(store, worker(claim))))
      await advance(25 * hour)
      // And back: a new life that a claim begins is not async.
      await take(store, again(claim))
      assert.equal((await store.keyRead(claim))?.async, false)
    },
  },
  {
    name: 'enqueue: has one winner among twenty on an expired key',
    async run({ store, advance }) {
      const claim = aClaim()
      await store.keyFinish(aFinish(await take(store, claim)))
      await advance(25 * hour)
      const verdicts = await Promise.all(Array.from({ length: 20 }, () => store.keyEnqueue(again(claim))))
      assert.equal(verdicts.filter(({ kind }) => kind === 'enqueued').length, 1)
    },
  },
  {
    name: 'enqueue: what waits for a worker never expires and is never reaped, however long it waits',
    async run({ store, advance }) {
      const claim = aClaim()
      await enqueue(store, claim)
      await advance(1000 * hour)
      await store.keyReap({ limit: 1000 })
      await enqueue(store, claim)
      const held = await take(store, worker(claim))
      assert.equal(held.lease.incarnation, claim.owner)
      await store.keyFinish(aFinish(held))
      await assertReplays(store, claim)
    },
  },
  {
    name: 'enqueue: refuses keys, tenants and scopes that cannot be kept, with a code',
    async run({ store }) {
      for (const [part, code] of [
        ['tenant', 'tenant_invalid'],
        ['scope', 'scope_invalid'],
        ['key', 'key_invalid'],
      ] as const) {
        await assert.rejects(store.keyEnqueue({ ...aClaim({ request }), [part]: 'a\0b' }), (error) => isOncekeyError(error, code))
      }
    },
  },
  {
    name: "by its id: shows a key to its tenant and to nobody else, with the store's own time",
    async run({ store, advance }) {
      const claim = aClaim({ request })
      await enqueue(store, claim)
      const wanted = { tenant: claim.tenant, id: keyId(claim) }
      const before = await store.keyReadById(wanted)
      assert.deepEqual([before?.record.state, before?.record.key], ['pending', claim.key])
      assert.deepEqual([...(before?.record.request ?? [])], [...request])
      const held = await take(store, worker(claim))
      const during = await store.keyReadById(wanted)
      const leftMs = (during?.record.leaseUntil ?? 0) - (during?.now ?? 0)
      assert.ok(leftMs > 0 && leftMs <= leaseMs, `${leftMs} ms of the lease are left`)
      await store.keyFinish(aFinish(held))
      const after = await store.keyReadById(wanted)
      assertSameAnswer(after?.record.answer, anAnswer)
      assert.ok((after?.now ?? 0) < (after?.record.expiresAt ?? 0))

      assert.equal(await store.keyReadById({ ...wanted, tenant: `${claim.tenant}2` }), undefined)
      await advance(24 * hour + second)
      // Shown as expired until it is reaped; in stores that expire keys, gone.
      const expired = await store.keyReadById(wanted)
      if (store.upkeep) assert.ok(expired)
      assert.ok(!expired || expired.now >= expired.record.expiresAt)
      await store.keyReap({ limit: 1000 })
      assert.equal(await store.keyReadById(wanted), undefined)
    },
  },
  {
    name: 'by its id: knows nothing of ids that nobody has, and of what is no id',
    async run({ store }) {
      const claim = aClaim()
      await enqueue(store, claim)
      const id = keyId(claim)
      const strangers = ['', 'x', claim.key, id.slice(1), `${id}0`, ` ${id}`, `{${id}}`, id.replaceAll('-', ''), "'; --", 'a\0b', '\uD800']
      for (const stranger of [...strangers, keyId(aClaim()), crypto.randomUUID()]) {
        assert.equal(await store.keyReadById({ tenant: claim.tenant, id: stranger }), undefined)
      }
      await assert.rejects(store.keyReadById({ tenant: '', id }), (error) => isOncekeyError(error, 'tenant_invalid'))
    },
  },
  {
    name: 'keeps a request that was left to workers, whatever is withdrawn: its duplicates were told that it is accepted',
    async run({ store }) {
      const claim = aClaim({ request })
      await store.keyEnqueue(claim)
      assert.equal((await store.keyEnqueue(again(claim))).kind, 'in-progress')
      assert.equal(await store.keyWithdraw(claim), 'absent')
      await take(store, worker(claim))
      assert.equal(await store.keyWithdraw(claim), 'absent')
    },
  },
  {
    name: "keeps a request that was left to workers when a worker's claim is withdrawn",
    async run({ store }) {
      const claim = aClaim({ request })
      await store.keyEnqueue(claim)
      const first = worker(claim)
      await take(store, first)
      assert.equal(await store.keyWithdraw(first), 'done')
      assert.equal((await store.keyRead(claim))?.state, 'pending')
      assert.deepEqual(Uint8Array.from((await take(store, worker(claim))).request ?? []), request)
    },
  },
]
