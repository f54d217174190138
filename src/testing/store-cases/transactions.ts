import assert from 'node:assert/strict'
import { isOncekeyError } from '../../core/errors.js'
import type { Store } from '../../core/store.js'
import type { StoreHarness } from '../exercise-store.js'
import { aClaim, aFinish, again, assertReplays, leaseMs, type StoreCase, take } from './store-case.js'

/** Stores without transactions have nothing to show here, and must not pretend to. */
function transactionCase<Tx>(
  name: string,
  run: (harness: Required<StoreHarness<Tx>>, store: Required<Store<Tx>>) => Promise<void>,
): StoreCase<Tx> {
  return {
    name,
    async run(harness) {
      if (!harness.store.transaction) return assert.notEqual(harness.store.durability, 'durable')
      assert.ok(harness.marks, 'a store with transactions needs `marks` in its harness')
      await run(harness as Required<StoreHarness<Tx>>, harness.store as Required<Store<Tx>>)
    },
  }
}

// biome-ignore lint/suspicious/noExplicitAny: the cases hold for whatever the store's transaction is.
export const transactionCases: StoreCase<any>[] = [
  transactionCase("commits the answer together with the user's writes", async ({ marks }, store) => {
    const claim = aClaim()
    const held = await take(store, claim)
    await store.transaction(async (tx) => {
      await marks.leave(tx, claim.tenant)
      assert.equal(await store.keyFinish(aFinish(held), tx), 'done')
    })
    assert.equal(await marks.exists(claim.tenant), true)
    await assertReplays(store, claim)
  }),
  transactionCase("rolls the user's writes back with a holder that was replaced", async ({ marks, advance }, store) => {
    const claim = aClaim()
    const zombie = await take(store, claim)
    await advance(leaseMs + 1)
    const holder = await take(store, again(claim))
    const attempt = store.transaction(async (tx) => {
      await marks.leave(tx, claim.tenant)
      await store.keyFinish(aFinish(zombie), tx)
    })
    await assert.rejects(attempt, (error) => isOncekeyError(error, 'lease_lost'))
    assert.equal(await marks.exists(claim.tenant), false)
    assert.equal(await store.keyFinish(aFinish(holder)), 'done')
  }),
  transactionCase('leaves the key with its holder when the transaction rolls back', async ({ marks }, store) => {
    const claim = aClaim()
    const held = await take(store, claim)
    const attempt = store.transaction(async (tx) => {
      await marks.leave(tx, claim.tenant)
      await store.keyFinish(aFinish(held), tx)
      throw new Error('the user changes their mind')
    })
    await assert.rejects(attempt, /changes their mind/)
    assert.equal(await marks.exists(claim.tenant), false)
    assert.equal((await store.keyClaim(again(claim))).kind, 'in-progress')
    assert.equal(await store.keyFinish(aFinish(held)), 'done')
  }),
]
