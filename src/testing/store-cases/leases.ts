import assert from 'node:assert/strict'
import { outcomeUnknown } from '../../core/system-answers.js'
import { aClaim, aFinish, again, anAnswer, assertReplays, assertSameAnswer, leaseMs, type StoreCase, second, take } from './store-case.js'

export const leaseCases: StoreCase[] = [
  {
    name: 'gives a stale key to the next claim, with the next fence and the same incarnation',
    async run({ store, advance }) {
      const claim = aClaim()
      const first = await take(store, claim)
      await advance(leaseMs + 1)
      const next = await take(store, again(claim))
      assert.equal(next.takenOver, true)
      assert.equal(next.lease.fence, 2)
      assert.equal(next.lease.incarnation, first.lease.incarnation)
    },
  },
  {
    name: 'has one winner among twenty takers of a stale key',
    async run({ store, advance }) {
      const claim = aClaim()
      await take(store, claim)
      await advance(leaseMs + 1)
      const verdicts = await Promise.all(Array.from({ length: 20 }, () => store.keyClaim(again(claim))))
      assert.equal(verdicts.filter(({ kind }) => kind === 'execute').length, 1)
    },
  },
  {
    name: 'keeps a key in progress for as long as heartbeats renew it',
    async run({ store, advance }) {
      const claim = aClaim()
      const { lease } = await take(store, claim)
      for (let beat = 0; beat < 5; beat += 1) {
        await advance(leaseMs - second)
        assert.deepEqual(await store.keyHeartbeat({ leases: [{ ...lease, leaseMs }] }), ['renewed'])
      }
      assert.equal((await store.keyClaim(again(claim))).kind, 'in-progress')
    },
  },
  {
    name: 'answers for each lease of a heartbeat by itself, in order',
    async run({ store, advance }) {
      const stale = aClaim()
      const replaced = await take(store, stale)
      await advance(leaseMs + 1)
      await take(store, again(stale))
      const live = await take(store, aClaim())
      const done = await take(store, aClaim())
      await store.keyFinish(aFinish(done))
      const unknown = { ...live.lease, id: crypto.randomUUID() }
      const otherLife = { ...live.lease, incarnation: crypto.randomUUID() }
      const leases = [replaced.lease, live.lease, done.lease, unknown, otherLife].map((lease) => ({ ...lease, leaseMs }))
      assert.deepEqual(await store.keyHeartbeat({ leases }), ['lost', 'renewed', 'lost', 'lost', 'lost'])
      assert.deepEqual(await store.keyHeartbeat({ leases: [] }), [])
    },
  },
  {
    name: 'refuses every write of a holder that was replaced',
    async run({ store, advance }) {
      const claim = aClaim()
      const zombie = await take(store, claim)
      await advance(leaseMs + 1)
      const holder = await take(store, again(claim))
      const { lease } = zombie
      assert.equal(await store.keyFinish(aFinish(zombie, { answer: { ...anAnswer, status: 500 } })), 'lost')
      assert.equal(await store.keyRelease({ lease }), 'lost')
      assert.equal(await store.keyPark({ lease, answer: anAnswer, reason: 'zombie' }), 'lost')
      assert.equal(await store.keyFinish(aFinish(holder)), 'done')
      assert.equal(await store.keyFinish(aFinish(zombie, { answer: { ...anAnswer, status: 500 } })), 'lost')
      await assertReplays(store, claim)
    },
  },
  {
    name: 'lets a late holder finish if nobody took its key',
    async run({ store, advance }) {
      const claim = aClaim()
      const late = await take(store, claim)
      await advance(leaseMs * 2)
      assert.equal(await store.keyFinish(aFinish(late)), 'done')
      await assertReplays(store, claim)
    },
  },
  {
    name: 'gives a released key to the next claim at once',
    async run({ store }) {
      const claim = aClaim({ afterFailure: 'park' })
      const { lease } = await take(store, claim)
      assert.equal(await store.keyRelease({ lease, reason: 'a test' }), 'done')
      const record = await store.keyRead(claim)
      assert.deepEqual([record?.state, record?.leaseUntil, record?.reason], ['pending', null, 'a test'])
      assert.equal((await take(store, again(claim))).lease.fence, 2)
    },
  },
  {
    name: 'takes a repeated finish, release or park for the same one',
    async run({ store }) {
      const finished = await take(store, aClaim())
      const released = await take(store, aClaim())
      const parked = await take(store, aClaim())
      for (const _ of ['first', 'repeated']) {
        assert.equal(await store.keyFinish(aFinish(finished)), 'done')
        assert.equal(await store.keyRelease({ lease: released.lease }), 'done')
        assert.equal(await store.keyPark({ lease: parked.lease, answer: anAnswer, reason: 'a test' }), 'done')
      }
      assert.equal(await store.keyFinish(aFinish(released)), 'lost')
      assert.equal(await store.keyRelease({ lease: finished.lease }), 'lost')
    },
  },
  {
    name: 'never executes a parked key, and answers with what was stored',
    async run({ store, advance }) {
      const claim = aClaim()
      const { lease } = await take(store, claim)
      await store.keyPark({ lease, answer: anAnswer, reason: 'outcome unknown' })
      await advance(365 * 24 * 60 * 60 * second)
      const verdict = await store.keyClaim(again(claim))
      assert.equal(verdict.kind, 'parked')
      assertSameAnswer(verdict.kind === 'parked' ? verdict.answer : null, anAnswer)
    },
  },
  {
    name: 'stores an unknown outcome when the holder of work that must not rerun is gone',
    async run({ store, advance }) {
      const claim = aClaim({ afterFailure: 'store' })
      const gone = await take(store, claim)
      await advance(leaseMs + 1)
      const together = await Promise.all([store.keyClaim(again(claim)), store.keyClaim(again(claim))])
      // One of them settles the key. The other may find it locked, and no claim waits for a lock.
      const replays = together.filter(({ kind }) => kind !== 'in-progress')
      assert.ok(replays.length > 0, 'one of two claims settles the key')
      for (const verdict of [...replays, await store.keyClaim(again(claim))]) {
        assert.equal(verdict.kind === 'replay' && verdict.state, 'failed')
        assert.equal(verdict.kind === 'replay' && verdict.incarnation, gone.lease.incarnation)
        assertSameAnswer(verdict.kind === 'replay' ? verdict.answer : null, outcomeUnknown)
      }
      assert.equal((await store.keyRead(claim))?.fence, gone.lease.fence + 1)
      assert.equal(await store.keyFinish(aFinish(gone)), 'lost')
    },
  },
  {
    name: 'parks the key when the holder of work that must be looked at is gone',
    async run({ store, advance }) {
      const claim = aClaim({ afterFailure: 'park' })
      const gone = await take(store, claim)
      await advance(leaseMs + 1)
      // The stored `afterFailure` counts, not the claim's.
      assert.equal((await store.keyClaim(again(claim, { afterFailure: 'rerun' }))).kind, 'parked')
      assert.equal(await store.keyFinish(aFinish(gone)), 'lost')
    },
  },
]
