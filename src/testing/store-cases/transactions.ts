import assert from 'node:assert/strict'
import type { KeyFinish, KeyStore, StepStore } from '../../core/store.js'
import type { StoreHarness } from '../exercise-store.js'
import { aClaim, aFinish, again, assertReplays, leaseMs, type StoreCase, take } from './store-case.js'

/** Stores without transactions have nothing to show here, and must not pretend to. */
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

/** The transaction that rolls back when the store says that the lease is lost. */
async function finishOrThrow<Tx>(steps: StepStore<Tx>, finish: KeyFinish, tx: Tx): Promise<void> {
  if ((await steps.keyFinishWithin(finish, tx)) === 'lost') throw new Error('lost')
}

// biome-ignore lint/suspicious/noExplicitAny: the cases hold for whatever the store's transaction is.
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
