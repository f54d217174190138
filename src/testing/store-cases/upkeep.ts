import assert from 'node:assert/strict'
import type { EndedKey, KeyClaim, KeyStore, Store, UpkeepStore } from '../../core/store.js'
import { holderGone, outcomeUnknown } from '../../core/system-answers.js'
import {
  aClaim,
  aFinish,
  again,
  assertReplays,
  assertSameAnswer,
  type Execute,
  hour,
  leaseMs,
  type StoreCase,
  second,
  take,
} from './store-case.js'

/** Skipped for stores without upkeep. */
function upkeepCase(
  name: string,
  run: (harness: { store: Store; upkeep: UpkeepStore; advance: (ms: number) => unknown }) => Promise<void>,
) {
  return {
    name,
    async run({ store, advance }) {
      if (store.upkeep) await run({ store, upkeep: store.upkeep, advance })
    },
  } satisfies StoreCase
}

const turnMs = 60 * second
const holder = crypto.randomUUID()

/** Sweeps until nothing is left, and returns what became of this tenant's keys. */
async function sweep(upkeep: UpkeepStore, tenant: string, limit = 100): Promise<EndedKey[]> {
  const ended: EndedKey[] = []
  for (let after: string | undefined; ; ) {
    const page = await upkeep.keysSweep({ holder, turnMs, limit, after })
    assert.equal(page.turn, true)
    if (!page.turn) return ended
    ended.push(...page.swept)
    if (page.lookedUpTo === null) break
    after = page.lookedUpTo
  }
  return ended.filter((key) => key.tenant === tenant)
}

const stateOf = async (store: KeyStore, claim: KeyClaim) => (await store.keyRead(claim))?.state

const request = new Uint8Array([1, 2, 3])

export const upkeepCases: StoreCase[] = [
  upkeepCase(
    'sweeps a key whose holder is gone back to pending, with the reason, at its recovery point',
    async ({ store, upkeep, advance }) => {
      const claim = aClaim()
      const { lease } = await take(store, claim)
      await advance(leaseMs + second)
      const { tenant, scope, key } = claim
      assert.deepEqual(await sweep(upkeep, tenant), [{ tenant, scope, key, fence: 2, to: 'pending', reason: holderGone }])
      const record = await store.keyRead(claim)
      assert.deepEqual([record?.state, record?.reason, record?.leaseUntil], ['pending', holderGone, null])
      assert.equal(await store.keyFinish(aFinish({ lease } as never)), 'lost')
      assert.equal(await store.keyRelease({ lease }), 'lost')
      assert.equal((await take(store, again(claim))).lease.fence, 3)
    },
  ),

  upkeepCase(
    'a key that was swept and has no final answer is forgotten when its claim is withdrawn',
    async ({ store, upkeep, advance }) => {
      const failed = aClaim({ afterFailure: 'store' })
      await take(store, failed)
      const claims = (['rerun', 'park'] as const).map((afterFailure) => aClaim({ afterFailure }))
      for (const claim of claims) await take(store, claim)
      await advance(leaseMs + second)
      for (const { tenant } of [failed, ...claims]) await sweep(upkeep, tenant)
      for (const claim of claims) {
        assert.equal(await store.keyWithdraw(claim), 'done')
        assert.equal(await store.keyRead(claim), undefined)
      }
      assert.equal(await store.keyWithdraw(failed), 'absent')
      assert.equal((await store.keyRead(failed))?.state, 'failed')
    },
  ),

  upkeepCase('sweeps a key whose work must not run again to failed or parked, and its holder cannot come back', async (harness) => {
    const { store, upkeep, advance } = harness
    for (const [afterFailure, to] of [
      ['store', 'failed'],
      ['park', 'parked'],
    ] as const) {
      const claim = aClaim({ afterFailure })
      const { lease } = await take(store, claim)
      await advance(leaseMs + second)
      assert.deepEqual(
        (await sweep(upkeep, claim.tenant)).map((key) => key.to),
        [to],
      )
      const record = await store.keyRead(claim)
      assert.equal(record?.state, to)
      assertSameAnswer(record?.answer, outcomeUnknown)
      assert.deepEqual(await store.keyHeartbeat({ leases: [{ ...lease, leaseMs }] }), ['lost'])
      assert.equal(await store.keyFinish(aFinish({ lease } as never)), 'lost')
    }
  }),

  upkeepCase('keeps what it stores of a key for a while, also past the retention: it does not run again', async (harness) => {
    const { store, upkeep, advance } = harness
    const claim = aClaim({ afterFailure: 'store', retention: { ms: hour, from: 'creation', floorMs: hour } })
    await take(store, claim)
    await advance(2 * hour)
    assert.equal((await sweep(upkeep, claim.tenant)).length, 1)
    await advance(hour - 60 * second)
    await store.keyReap({ limit: 1_000 })
    assert.equal((await store.keyClaim(again(claim))).kind, 'replay')
  }),

  upkeepCase(
    'leaves a key alone whose lease is alive, also one that was renewed, and sweeps it later',
    async ({ store, upkeep, advance }) => {
      const claim = aClaim()
      const { lease } = await take(store, claim)
      assert.deepEqual(await sweep(upkeep, claim.tenant), [])
      await advance(leaseMs - second)
      await store.keyHeartbeat({ leases: [{ ...lease, leaseMs }] })
      await advance(2 * second)
      assert.deepEqual(await sweep(upkeep, claim.tenant), [])
      assert.equal(await stateOf(store, claim), 'processing')
      await advance(leaseMs)
      assert.equal((await sweep(upkeep, claim.tenant)).length, 1)
    },
  ),

  upkeepCase('sweeps a key once, and a key that was swept and taken again a second time', async ({ store, upkeep, advance }) => {
    const claim = aClaim()
    await take(store, claim)
    await advance(leaseMs + second)
    assert.equal((await sweep(upkeep, claim.tenant)).length, 1)
    assert.equal((await sweep(upkeep, claim.tenant)).length, 0)
    await take(store, again(claim))
    await advance(leaseMs + second)
    const [swept] = await sweep(upkeep, claim.tenant)
    assert.equal(swept?.fence, 4)
  }),

  upkeepCase('finds every key that is stuck among many that are not, page by page', async ({ store, upkeep, advance }) => {
    const tenant = `tenant-${crypto.randomUUID()}`
    const held: Execute[] = []
    // One after the other, so that due times differ: equal ones form one page.
    for (let number = 0; number < 30; number += 1) held.push(await take(store, aClaim({ tenant, key: `key-${number}` })))
    await Promise.all(held.filter((_, number) => number % 3 > 0).map((one) => store.keyFinish(aFinish(one))))
    await advance(leaseMs + second)
    const swept = await sweep(upkeep, tenant, 4)
    assert.equal(new Set(swept.map(({ key }) => key)).size, 10)
    assert.equal(swept.length, 10)
  }),

  upkeepCase('gives one process the turn to sweep, and another one when it has died', async ({ upkeep, advance }) => {
    const [first, second] = [crypto.randomUUID(), crypto.randomUUID()]
    await advance(turnMs)
    assert.equal((await upkeep.keysSweep({ holder: first, turnMs, limit: 10 })).turn, true)
    assert.equal((await upkeep.keysSweep({ holder: second, turnMs, limit: 10 })).turn, false)
    assert.equal((await upkeep.keysSweep({ holder: first, turnMs, limit: 10 })).turn, true)
    await advance(turnMs + 1)
    assert.equal((await upkeep.keysSweep({ holder: second, turnMs, limit: 10 })).turn, true)
    await advance(turnMs + 1)
  }),

  upkeepCase(
    'lists keys that wait for a worker: due, of these scopes, with a request; longest first',
    async ({ store, upkeep, advance }) => {
      const tenant = `tenant-${crypto.randomUUID()}`
      const scope = `scope-${tenant}`
      const release = async (key: string, dueInMs: number, changes: Partial<KeyClaim> = {}) => {
        const { lease } = await take(store, aClaim({ tenant, scope, key, request, ...changes }))
        await store.keyRelease({ lease, dueInMs })
      }
      await release('second', 60 * second)
      await release('first', 30 * second)
      await release('later', hour)
      await release('of another scope', 0, { scope: 'another' })
      await release('without a request', 0, { request: null })
      await take(store, aClaim({ tenant, scope, key: 'held', request }))
      const waiting = async (limit = 10) => (await upkeep.keysWaiting({ scopes: [scope], limit })).map(({ key }) => key)
      assert.deepEqual(await waiting(), [])
      await advance(61 * second)
      assert.deepEqual(await waiting(), ['first', 'second'])
      assert.deepEqual(await waiting(1), ['first'])
      assert.deepEqual(await upkeep.keysWaiting({ scopes: [], limit: 10 }), [])
      await take(store, aClaim({ tenant, scope, key: 'first', request }))
      assert.deepEqual(await waiting(), ['second'])
    },
  ),

  upkeepCase('counts how often a worker, and not a client, has taken a key, until its life is over', async ({ store, advance }) => {
    const claim = aClaim({ request })
    for (const [worker, attempts] of [
      [false, 0],
      [true, 1],
      [false, 1],
      [true, 2],
    ] as const) {
      const verdict = await take(store, again(claim, { worker }))
      assert.equal(verdict.attempts, attempts)
      await store.keyRelease({ lease: verdict.lease })
    }
    await store.keyFinish(aFinish(await take(store, again(claim))))
    await advance(25 * hour)
    assert.equal((await take(store, again(claim))).attempts, 0)
  }),

  upkeepCase('lets a worker begin nothing: a key that was reaped, or has expired, does not run again', async ({ store, advance }) => {
    const claim = aClaim({ request })
    await store.keyFinish(aFinish(await take(store, claim)))
    await advance(25 * hour)
    assert.equal((await store.keyClaim(again(claim, { worker: true, fingerprint: null }))).kind, 'replay')
    await store.keyReap({ limit: 1_000 })
    assert.equal((await store.keyClaim(again(claim, { worker: true, fingerprint: null }))).kind, 'in-progress')
    assert.equal(await store.keyRead(claim), undefined)
  }),

  upkeepCase('parks a key past its retention that was claimed once and that nobody can run, and leaves all others', async (harness) => {
    const { store, upkeep, advance } = harness
    const tenant = `tenant-${crypto.randomUUID()}`
    const claims = ['opaque', 'operation', 'held', 'done'].map((key) =>
      aClaim({ tenant, key, request: key === 'operation' ? request : null }),
    )
    const [opaque, operation, held, done] = claims as [KeyClaim, KeyClaim, KeyClaim, KeyClaim]
    for (const claim of [opaque, operation]) await store.keyRelease({ lease: (await take(store, claim)).lease })
    const { lease } = await take(store, held)
    await store.keyFinish(aFinish(await take(store, done)))
    const timeOut = async () => (await upkeep.keysTimeOut({ limit: 1_000 })).filter((key) => key.tenant === tenant)
    assert.deepEqual(await timeOut(), [])
    await advance(25 * hour)
    await store.keyHeartbeat({ leases: [{ ...lease, leaseMs }] })
    assert.deepEqual(
      (await timeOut()).map(({ key, to }) => [key, to]),
      [['opaque', 'parked']],
    )
    assert.equal(await stateOf(store, operation), 'pending')
    assert.equal(await stateOf(store, held), 'processing')
    const verdict = await store.keyClaim(again(opaque))
    assert.equal(verdict.kind, 'parked')
    await advance(24 * hour)
    assert.deepEqual(
      (await timeOut()).map(({ key, to }) => [key, to]),
      [['operation', 'parked']],
    )
    await store.keyReap({ limit: 1_000 })
    assert.deepEqual([await stateOf(store, opaque), await stateOf(store, operation)], ['parked', 'parked'])
  }),

  upkeepCase('does not touch a key that came back to life while it was looked at', async ({ store, upkeep, advance }) => {
    const claim = aClaim({ afterFailure: 'park' })
    await take(store, claim)
    await advance(leaseMs + second)
    const [, , swept] = await Promise.all([
      store.keyClaim(again(claim)),
      store.keyClaim(again(claim)),
      sweep(upkeep, claim.tenant),
      upkeep.keysTimeOut({ limit: 10 }),
    ])
    assert.ok(swept.length <= 1)
    assert.equal(await stateOf(store, claim), 'parked')
  }),

  upkeepCase('keeps answers that are stored through all of it', async ({ store, upkeep, advance }) => {
    const claim = aClaim()
    await store.keyFinish(aFinish(await take(store, claim)))
    await advance(hour)
    await sweep(upkeep, claim.tenant)
    await upkeep.keysTimeOut({ limit: 100 })
    await assertReplays(store, claim)
  }),
]
