import assert from 'node:assert/strict'
import type { KeyFinish, KeyStore, StepStore } from '../../core/store.js'
import type { StoreHarness } from '../exercise-store.js'
import { aClaim, aFinish, again, anAnswer, assertReplays, hour, leaseMs, type StoreCase, take } from './store-case.js'

/** Skipped for stores without transactions, which must not pretend to have them. */
function transactionCase<Tx>(
  name: string,
  run: (harness: Required<StoreHarness<Tx>>, store: KeyStore, steps: StepStore<Tx>) => Promise<void>,
): StoreCase<Tx> {
  return {
    name,
    async run(harness) {
      const { store, marks } = harness
      if (!store.steps) return assert.notEqual(store.durability, 'durable')
      assert.ok(marks, 'a store with steps needs `marks` in its harness')
      await run({ ...harness, marks }, store, store.steps)
    },
  }
}

/** A transaction that rolls back when the lease is lost. */
async function finishOrThrow<Tx>(steps: StepStore<Tx>, finish: KeyFinish, tx: Tx): Promise<void> {
  const result = await steps.keyFinishWithin(finish, tx)
  if (result !== 'done') throw new Error(result)
}

// biome-ignore lint/suspicious/noExplicitAny: the cases work with any transaction type.
export const transactionCases: StoreCase<any>[] = [
  transactionCase("commits the answer together with the user's writes", async ({ marks }, store, steps) => {
    const claim = aClaim()
    const held = await take(store, claim)
    await steps.transaction(async (tx) => {
      await marks.leave(tx, claim.tenant)
      await finishOrThrow(steps, aFinish(held), tx)
    })
    assert.equal(await marks.exists(claim.tenant), true)
    await assertReplays(store, claim)
  }),
  transactionCase(
    'knows a finish inside a transaction that was committed before, so that its writes are not made twice',
    async ({ marks }, store, steps) => {
      const claim = aClaim()
      const held = await take(store, claim)
      const attempt = (mark: string) =>
        steps.transaction(async (tx) => {
          await marks.leave(tx, mark)
          await finishOrThrow(steps, aFinish(held), tx)
        })
      await attempt(`${claim.tenant} first`)
      await assert.rejects(attempt(`${claim.tenant} second`), /repeated/)
      assert.equal(await marks.exists(`${claim.tenant} second`), false)
    },
  ),
  transactionCase("rolls the user's writes back with a holder that was replaced", async ({ marks, advance }, store, steps) => {
    const claim = aClaim()
    const zombie = await take(store, claim)
    await advance(leaseMs + 1)
    const holder = await take(store, again(claim))
    const attempt = steps.transaction(async (tx) => {
      await marks.leave(tx, claim.tenant)
      await finishOrThrow(steps, aFinish(zombie), tx)
    })
    await assert.rejects(attempt, /lost/)
    assert.equal(await marks.exists(claim.tenant), false)
    assert.equal(await store.keyFinish(aFinish(holder)), 'done')
  }),
  transactionCase('moves the recovery point once, from where it was, and knows a repeat', async (_, store, steps) => {
    const claim = aClaim()
    const { lease } = await take(store, claim)
    const first = { lease, from: null, to: 'a', steps: [{ name: 'a', position: 0, kind: 'phase', result: '1' }], jobs: [] } as const
    const second = { lease, from: 'a', to: 'b', steps: [{ name: 'b', position: 1, kind: 'call', result: null }], jobs: [] } as const
    assert.equal(await steps.stepAdvance(first), 'done')
    assert.equal(await steps.stepAdvance(first), 'repeated')
    assert.equal(await steps.stepAdvance(second), 'done')
    // From an outdated recovery point, nothing moves and nothing is recorded.
    const late = { ...first, to: 'c', steps: [{ name: 'c', position: 2, kind: 'phase', result: null }] } as const
    assert.equal(await steps.stepAdvance(late), 'lost')
    const { steps: recorded } = await steps.stepsRead(lease)
    assert.deepEqual(
      recorded.map(({ name, kind, result }) => ({ name, kind, result })),
      [
        { name: 'a', kind: 'phase', result: '1' },
        { name: 'b', kind: 'call', result: null },
      ],
    )
    assert.equal((await store.keyRead(claim))?.recoveryPoint, 'b')
  }),
  transactionCase(
    'moves the recovery point to the last step that comes along when a key is given back or parked',
    async (_, store, steps) => {
      const call = (name: string, position: number) => ({ name, position, kind: 'call', result: null }) as const
      const claim = aClaim()
      const first = await take(store, claim)
      await store.keyRelease({ lease: first.lease, steps: [call('a', 0), call('b', 1)] })
      const second = await take(store, again(claim))
      assert.equal(second.recoveryPoint, 'b')
      // Without steps it stays unchanged.
      await store.keyRelease({ lease: second.lease })
      const third = await take(store, again(claim))
      assert.equal(third.recoveryPoint, 'b')
      await store.keyPark({ lease: third.lease, answer: anAnswer, reason: 'a test', step: 'd', steps: [call('c', 2)] })
      assert.equal((await store.keyRead(claim))?.recoveryPoint, 'c')
      assert.equal(await steps.keyResolve({ ...claim, resolution: { as: 'did-not-happen' }, by: 'a test' }), 'done')
      const fourth = await take(store, again(claim))
      assert.equal(fourth.recoveryPoint, 'c')
      await store.keyPark({ lease: fourth.lease, answer: anAnswer, reason: 'a test', step: 'd' })
      assert.equal(await steps.keyResolve({ ...claim, resolution: { as: 'happened', result: null }, by: 'a test' }), 'done')
      assert.equal((await take(store, again(claim))).recoveryPoint, 'd')
    },
  ),
  transactionCase('records no step of a holder that was replaced', async ({ advance }, store, steps) => {
    const claim = aClaim()
    const { lease } = await take(store, claim)
    await advance(leaseMs + 1)
    const next = await take(store, again(claim))
    const step = { name: 'a', position: 0, kind: 'phase', result: null } as const
    assert.equal(await steps.stepAdvance({ lease, from: null, to: 'a', steps: [step], jobs: [] }), 'lost')
    assert.deepEqual((await steps.stepsRead(next.lease)).steps, [])
  }),
  transactionCase('begins a new life of the key without the steps of the old one', async ({ advance }, store, steps) => {
    const step = { name: 'a', position: 0, kind: 'call', result: '1' } as const
    const claim = aClaim()
    const held = await take(store, claim)
    await store.keyFinish(aFinish(held, { steps: [step] }))
    assert.equal((await steps.stepsRead(held.lease)).steps.length, 1)
    await advance(25 * hour)
    const reborn = await take(store, again(claim))
    assert.deepEqual((await steps.stepsRead(reborn.lease)).steps, [])
  }),
  transactionCase('leaves the key with its holder when the transaction rolls back', async ({ marks }, store, steps) => {
    const claim = aClaim()
    const held = await take(store, claim)
    const attempt = steps.transaction(async (tx) => {
      await marks.leave(tx, claim.tenant)
      await finishOrThrow(steps, aFinish(held), tx)
      throw new Error('the user changes their mind')
    })
    await assert.rejects(attempt, /changes their mind/)
    assert.equal(await marks.exists(claim.tenant), false)
    assert.equal((await store.keyClaim(again(claim))).kind, 'in-progress')
    assert.equal(await store.keyFinish(aFinish(held)), 'done')
  }),
]
