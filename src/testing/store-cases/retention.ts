import assert from 'node:assert/strict'
import { resolveRetention } from '../../core/retention.js'
import type { KeyClaim, KeyStore } from '../../core/store.js'
import { aClaim, aFinish, again, assertReplays, fingerprintOf, hour, leaseMs, oneDay, type StoreCase, second, take } from './store-case.js'

async function assertExpired(store: KeyStore, claim: KeyClaim): Promise<void> {
  const next = await take(store, again(claim))
  assert.equal(next.lease.fence, 1)
  assert.notEqual(next.lease.incarnation, claim.owner)
}

export const retentionCases: StoreCase[] = [
  {
    name: 'replays until the retention is over, then begins a new life, with another body if need be',
    async run({ store, advance }) {
      const claim = aClaim({ request: new Uint8Array([1]) })
      await store.keyFinish(aFinish(await take(store, claim)))
      await advance(24 * hour - 10 * second)
      await assertReplays(store, claim)
      await advance(11 * second)
      const next = await take(store, again(claim, { fingerprint: fingerprintOf('another'), request: null }))
      assert.deepEqual([next.lease.fence, next.takenOver, next.recoveryPoint], [1, false, null])
      const record = await store.keyRead(claim)
      assert.deepEqual([record?.answer, record?.request, record?.reason], [null, null, null])
      await store.keyFinish(aFinish(next))
      await assertReplays(store, { ...claim, fingerprint: fingerprintOf('another') })
    },
  },
  {
    name: 'names the life of the key with each replay: one for all replays of an answer, another one after expiry',
    async run({ store, advance }) {
      const claim = aClaim()
      const lives = async () => {
        const verdicts = [await store.keyClaim(again(claim)), await store.keyClaim(again(claim)), await store.keyPeek(again(claim))]
        return verdicts.map((verdict) => (verdict?.kind === 'replay' ? verdict.incarnation : verdict?.kind))
      }
      await store.keyFinish(aFinish(await take(store, claim)))
      assert.deepEqual(await lives(), [claim.owner, claim.owner, claim.owner])
      await advance(25 * hour)
      const reborn = again(claim)
      // A failure, stored by a later holder, belongs to the same life.
      await store.keyRelease({ lease: (await take(store, reborn)).lease })
      await store.keyFinish(aFinish(await take(store, again(claim)), { state: 'failed' }))
      assert.deepEqual(await lives(), [reborn.owner, reborn.owner, reborn.owner])
    },
  },
  {
    name: 'has one winner among twenty claims of an expired key',
    async run({ store, advance }) {
      const claim = aClaim()
      await store.keyFinish(aFinish(await take(store, claim)))
      await advance(25 * hour)
      const verdicts = await Promise.all(Array.from({ length: 20 }, () => store.keyClaim(again(claim))))
      assert.equal(verdicts.filter(({ kind }) => kind === 'execute').length, 1)
    },
  },
  {
    name: 'refuses a holder from an earlier life of the key, reaped or not',
    async run({ store, advance }) {
      for (const reap of [false, true]) {
        const claim = aClaim()
        const frozen = await take(store, claim)
        await advance(leaseMs + 1)
        await store.keyFinish(aFinish(await take(store, again(claim))))
        await advance(25 * hour)
        if (reap) while ((await store.keyReap({ limit: 1000 })) > 0);
        const next = await take(store, again(claim))
        // The fence equals the stale holder's again: only the incarnation differs.
        assert.equal(next.lease.fence, frozen.lease.fence)
        assert.equal(await store.keyFinish(aFinish(frozen)), 'lost')
        assert.equal(await store.keyRelease({ lease: frozen.lease }), 'lost')
        assert.deepEqual(await store.keyHeartbeat({ leases: [{ ...frozen.lease, leaseMs }] }), ['lost'])
        assert.equal(await store.keyFinish(aFinish(next)), 'done')
      }
    },
  },
  {
    name: 'counts from completion when asked to',
    async run({ store, advance }) {
      const retention = resolveRetention({ for: '24h', from: 'completion' }, '1h')
      const claim = aClaim({ retention, leaseMs: 48 * hour })
      const held = await take(store, claim)
      await advance(20 * hour)
      await store.keyFinish(aFinish(held, { retention }))
      await advance(23 * hour)
      await assertReplays(store, claim)
      await advance(1 * hour + second)
      await assertExpired(store, claim)
    },
  },
  {
    name: 'never expires work in progress, and keeps its answer for the floor when it took longer than its retention',
    async run({ store, advance }) {
      const claim = aClaim({ leaseMs: 100 * hour })
      const held = await take(store, claim)
      await advance(30 * hour)
      await store.keyReap({ limit: 1000 })
      assert.equal((await store.keyClaim(again(claim))).kind, 'in-progress')
      await store.keyFinish(aFinish(held))
      await advance(hour - 10 * second)
      await assertReplays(store, claim)
      await advance(11 * second)
      await assertExpired(store, claim)
    },
  },
  {
    name: 'keeps a ledger key for ever',
    async run({ store, advance }) {
      const retention = resolveRetention('forever', '1h')
      const claim = aClaim({ retention })
      await store.keyFinish(aFinish(await take(store, claim), { retention }))
      await advance(50 * 365 * 24 * hour)
      await store.keyReap({ limit: 1000 })
      await assertReplays(store, claim)
    },
  },
  {
    name: 'reaps expired keys only, and no more than it is asked to',
    async run({ store, advance }) {
      const tenant = aClaim().tenant
      const inState = async (key: string, settle: (held: Awaited<ReturnType<typeof take>>) => Promise<unknown>) =>
        settle(await take(store, aClaim({ tenant, key })))
      for (const key of ['done-1', 'done-2', 'done-3']) await inState(key, (held) => store.keyFinish(aFinish(held)))
      await inState('processing', async () => {})
      await inState('released', ({ lease }) => store.keyRelease({ lease }))
      await inState('parked', ({ lease }) => store.keyPark({ lease, answer: aFinish({ lease } as never).answer, reason: 'a test' }))
      await inState('longer', (held) => store.keyFinish(aFinish(held, { retention: { ...oneDay, ms: 100 * hour } })))
      await advance(25 * hour)
      await inState('fresh', (held) => store.keyFinish(aFinish(held)))

      const left = async () => {
        const keys = ['done-1', 'done-2', 'done-3', 'processing', 'released', 'parked', 'longer', 'fresh']
        const records = await Promise.all(keys.map((key) => store.keyRead({ tenant, scope: 'orders.create', key })))
        return keys.filter((_, index) => records[index])
      }
      // Stores that expire keys have nothing left to reap.
      assert.equal(await store.keyReap({ limit: 1 }), (await left()).length > 5 ? 1 : 0)
      while ((await store.keyReap({ limit: 1000 })) > 0);
      assert.deepEqual(await left(), ['processing', 'released', 'parked', 'longer', 'fresh'])
    },
  },
]
